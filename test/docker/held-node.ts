import { existsSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { NO_ENGINE, TEST_IMAGE } from '../support/docker.ts'
import { openDesk } from '../support/sandbox-run.ts'

// In a sealed run the first node is made ready while the door is placed. Nobody may notice.

const SEALED = 'rules: [a.test]\n'

void tap.test(
  'what is ready does not run when the door does not prove itself',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    writeFileSync(path.join(desk.workspace, 'policy.yaml'), SEALED)
    const door = ['--policy', 'policy.yaml', '--door', 'sidecar', '--sidecar-image', TEST_IMAGE]
    // The image has no relay, which takes longer to show than a command takes to run.
    const ended = await desk.runCommand(door, ['touch', 'ran'])
    t.match(ended, { code: 125, stderr: /SANDBOX_DOOR_FAILED/ })
    t.notMatch(ended.stderr, /OCI runtime/, 'and what becomes of it is not told')
    t.notOk(existsSync(path.join(desk.workspace, 'ran')))
    t.strictSame(desk.eventsOf('node_started'), [])
    t.strictSame(desk.leftovers(), [])
  },
)

void tap.test(
  'a node that reads nothing has nothing to read, one that reads has it all',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    writeFileSync(path.join(desk.workspace, 'policy.yaml'), SEALED)
    const sealed = ['--policy', 'policy.yaml']
    const look = ['sh', '-c', 'readlink /proc/self/fd/0; cat; env | grep -c ^_iterion_']
    t.match(await desk.runCommand(sealed, look), { code: 1, stdout: '/dev/null\n0\n' })
    const line = ['run', ...sealed, '-i', '--image', TEST_IMAGE, '--', 'cat']
    t.match(await desk.run(line, { input: '\nword\n' }), { code: 0, stdout: '\nword\n' })
  },
)

void tap.test(
  'a run that is gone on with makes the node ready that is next',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    writeFileSync(
      path.join(desk.workspace, 'workflow.yaml'),
      `name: two
sandbox: { image: ${TEST_IMAGE}, network: { rules: [a.test] } }
nodes:
  - { id: first, command: "echo first" }
  - { id: second, command: "echo second; test -e allowed" }
  - { id: third, command: "echo third" }
`,
    )
    t.match(await desk.run(['run', 'workflow.yaml']), { code: 1, stdout: 'first\nsecond\n' })
    writeFileSync(path.join(desk.workspace, 'allowed'), '')
    const { id } = desk.record()
    t.match(await desk.run(['resume', id]), { code: 0, stdout: 'second\nthird\n' })
  },
)

void tap.test(
  'secrets are there before a node that was made ready without them',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    writeFileSync(
      path.join(desk.workspace, 'workflow.yaml'),
      `name: secret
sandbox: { image: ${TEST_IMAGE}, network: { rules: [a.test] } }
secrets:
  - { name: IN_FILE, as: file, from: { env: A } }
  - { name: LINES, as: env, from: { env: B } }
nodes:
  - { id: only, command: 'cat /run/secrets/IN_FILE; echo; echo "$LINES"' }
`,
    )
    const env = { A: 'a file', B: 'two\nlines' }
    t.match(await desk.run(['run', 'workflow.yaml'], { env }), {
      code: 0,
      stdout: 'a file\ntwo\nlines\n',
    })
  },
)
