import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import tap, { type Test } from 'tap'
import { NO_ENGINE, TEST_IMAGE } from '../support/docker.ts'
import { startHostSide } from '../support/escape/far-side.ts'
import { recordsOf } from '../support/event-records.ts'
import { pause } from '../support/proxy.ts'
import { type Desk, openDesk } from '../support/sandbox-run.ts'

// A command can write to the file that says how it ended. So it can lie about itself, and about nothing else.

tap.setTimeout(240_000)

const STATUS = '/run/iterion-egress/status'

interface Lie {
  readonly name: string
  /** The commands of the nodes. */
  readonly commands: readonly string[]
  /** What the run comes to. */
  readonly code: number
  /** The nodes that ended, by the events. */
  readonly finished: readonly string[]
}

const LIES: readonly Lie[] = [
  {
    name: 'about itself',
    commands: [`echo '0 exit 0' >> ${STATUS}; kill -KILL $PPID; sleep 5`],
    code: 0,
    finished: ['n0 0'],
  },
  {
    name: 'before it ends: the last word is not its own',
    commands: [`echo '0 exit 0' >> ${STATUS}; exit 7`],
    code: 7,
    finished: ['n0 7'],
  },
  {
    name: 'about a node that has not begun',
    commands: [`echo '1 exit 0' >> ${STATUS}`, 'exit 7'],
    code: 7,
    finished: ['n0 0', 'n1 7'],
  },
  {
    name: 'about a node that has ended',
    commands: ['exit 0', `echo '0 exit 9' >> ${STATUS}; exit 7`],
    code: 7,
    finished: ['n0 0', 'n1 7'],
  },
  {
    name: 'with codes that there are not',
    commands: [`printf '0 exit %s\\n' 999 -1 0x0 '' 00 > ${STATUS}; exit 7`],
    code: 7,
    finished: ['n0 7'],
  },
  {
    name: 'by taking all of it away',
    commands: [`: > ${STATUS}; exit 7`],
    code: 7,
    finished: ['n0 7'],
  },
  {
    name: 'by another file in its place',
    commands: [`rm -f ${STATUS}; mv ${STATUS} /tmp/s; ln -sfn /etc/passwd ${STATUS}; exit 7`],
    code: 7,
    finished: ['n0 7'],
  },
  {
    name: 'with more than anybody reads',
    commands: [`yes '0 exit 0' | head -c 5000000 >> ${STATUS}; echo >> ${STATUS}; exit 7`],
    code: 7,
    finished: ['n0 7'],
  },
  {
    name: 'that cannot be read: then it failed',
    commands: [`printf '\\033]0;x\\007 no line' >> ${STATUS}; exit 0`],
    code: 125,
    finished: [],
  },
]

function writeWorkflow(desk: Desk, commands: readonly string[]): void {
  const nodes = commands.map((command, i) => ({ id: `n${i}`, command }))
  const workflow = { name: 'lies', sandbox: { image: TEST_IMAGE, network: {} }, nodes }
  writeFileSync(path.join(desk.workspace, 'workflow.yaml'), JSON.stringify(workflow))
}

/** The events of the run, which are whole whatever it did. */
function eventsOf(t: Test, desk: Desk) {
  const { id } = desk.record()
  return recordsOf(t, readFileSync(path.join(desk.iterionHome, 'runs', id, 'events.jsonl'), 'utf8'))
}

void tap.test('a command that lies about how it ended', { skip: NO_ENGINE }, async (t) => {
  for (const { name, commands, code, finished } of LIES) {
    await t.test(name, async (part) => {
      const desk = openDesk(part)
      writeWorkflow(desk, commands)
      const result = await desk.run(['run', 'workflow.yaml'])
      part.equal(result.code, code, result.stderr)
      part.notMatch(result.stderr, '\u001B')
      part.equal(desk.record().status, code === 0 ? 'finished' : 'failed_resumable')
      const events = eventsOf(part, desk)
      part.strictSame(
        events
          .filter(({ type }) => type === 'node_finished')
          .map(({ data }) => `${String(data['node'])} ${String(data['exit_code'])}`),
        finished,
      )
      part.match(
        events.find(({ type }) => type === 'sandbox_stopped'),
        { data: { left_behind: [] } },
      )
      part.strictSame(desk.leftovers(), [])
    })
  }
})

void tap.test(
  'a signal goes to nobody outside, whatever pid is told',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    const host = await startHostSide(t, desk.folder, { mark: 'unheard', bridge: '127.0.0.1' })
    writeWorkflow(desk, [`echo '0 pid ${host.pid}' >> ${STATUS}; echo up; exec sleep 300`])
    const running = desk.start(['run', 'workflow.yaml'])
    await running.hears('up')
    running.child.kill('SIGINT')
    await pause(100)
    running.child.kill('SIGTERM')
    t.ok(Number((await running.done).code) > 128)
    t.equal(host.isAlive(), true, 'a process of the host with that number lives on')
    t.strictSame(await host.contacts(), [])
  },
)
