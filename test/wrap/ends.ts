import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import tap from 'tap'
import { pause } from '../support/proxy.ts'
import { waitFor } from '../support/serve-process.ts'
import { asOrdinaryUser } from '../support/users.ts'
import { NO_WRAP, openWrapDesk, type WrapCaller } from '../support/wrap.ts'

// Signals, ends, and what is left.

const POLICY = ['--mode', 'allowlist']
const TERMINAL = new URL('../fixtures/at-terminal.py', import.meta.url).pathname
const CALLERS: readonly WrapCaller[] = ['user', 'root']

/** The processes whose command line has a word in it. */
function processesWith(word: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes(word)
      } catch {
        return false
      }
    })
    .map(Number)
}

async function untilGone(word: string): Promise<void> {
  await waitFor(() => (processesWith(word).length === 0 ? true : undefined))
}

void tap.test('signals are the command’s', { skip: NO_WRAP }, async (t) => {
  const desk = openWrapDesk(t)
  for (const caller of CALLERS) {
    for (const [signal, expected] of [
      ['SIGTERM', 143],
      ['SIGINT', 130],
      ['SIGHUP', 129],
    ] as const) {
      const run = desk.start(caller, POLICY, ['sh', '-c', 'echo up; exec sleep 60'])
      await waitFor(() => run.stdout() || undefined)
      run.child.kill(signal)
      t.equal((await run.done).code, expected, `${signal} of ${caller}`)
    }
    const script = 'trap "echo caught; exit 5" TERM; echo up; while :; do sleep 0.1; done'
    const run = desk.start(caller, POLICY, ['sh', '-c', script])
    await waitFor(() => run.stdout() || undefined)
    run.child.kill('SIGTERM')
    t.match(await run.done, { code: 5, stdout: 'up\ncaught\n' })
  }
})

void tap.test(
  'at a terminal Ctrl-C comes once, and is the command’s',
  { skip: NO_WRAP },
  async (t) => {
    const desk = openWrapDesk(t)
    const script = 'trap "echo caught" INT; test -t 0 && echo up; sleep 1; sleep 1; exit 6'
    for (const caller of CALLERS) {
      const [first, ...as] = caller === 'root' ? ['env'] : asOrdinaryUser()
      const program = ['env', '-u', 'NODE_OPTIONS', process.execPath, desk.program, 'wrap']
      const who = caller === 'root' ? ['--user', 'nobody'] : []
      const options = [...who, ...POLICY, '--']
      const words = [`/usr/bin/${first}`, ...as, ...program, ...options, 'sh', '-c', script]
      const { stdout, stderr } = spawnSync('/usr/bin/python3', [TERMINAL, ...words], {
        encoding: 'utf8',
        cwd: desk.folder,
      })
      t.equal(stdout, 'up\n^Ccaught\ncode 6\n', `${caller} ${stderr}`)
    }
  },
)

void tap.test('a signal before the command runs ends it all', { skip: NO_WRAP }, async (t) => {
  const desk = openWrapDesk(t)
  for (const wait of [0, 60, 120, 180]) {
    const word = `early-${process.pid}-${wait}`
    const run = desk.start('user', POLICY, ['sh', '-c', 'exec sleep 60', word])
    await pause(wait)
    run.child.kill('SIGTERM')
    const { code } = await run.done
    t.ok(code === 143 || code === null, `${code} after ${wait} ms`)
    await untilGone(word)
  }
})

void tap.test('what a command left behind ends with it', { skip: NO_WRAP }, async (t) => {
  const desk = openWrapDesk(t)
  for (const caller of CALLERS) {
    const word = `left-${caller}-${process.pid}`
    const script = `setsid sh -c 'while :; do sleep 0.1; done' ${word} >/dev/null 2>&1 & (sleep 60 ${word} &) ; exit 4`
    const { code } = await desk.run(caller, POLICY, ['sh', '-c', script])
    t.equal(code, 4)
    t.strictSame(processesWith(word), [])
  }
})

void tap.test(
  'whichever of its processes is killed, nothing goes on',
  { skip: NO_WRAP },
  async (t) => {
    const desk = openWrapDesk(t)
    for (const caller of CALLERS) {
      for (const victim of ['wrap', 'wrap-helper.cjs', 'guard', 'init']) {
        const word = `killed-${caller}-${victim}-${process.pid}`
        const command = ['sh', '-c', 'setsid sleep 60 & echo up; wait', word]
        const run = desk.start(caller, POLICY, command)
        await waitFor(() => run.stdout() || undefined)
        const [pid] = processesWith(word).filter((one) => {
          const words = readFileSync(`/proc/${one}/cmdline`, 'utf8').split('\0')
          return words[2] === victim || words[3] === victim
        })
        const found = victim === 'wrap-helper.cjs' ? helperOf(run.child.pid) : (pid ?? 0)
        t.ok(found > 0, victim)
        process.kill(found, 'SIGKILL')
        const { code, stderr } = await run.done
        t.equal(
          code,
          victim === 'wrap' ? null : victim === 'init' ? 137 : 125,
          `${victim} ${stderr}`,
        )
        await untilGone(word)
      }
    }
  },
)

/** The helper of a `wrap`. */
function helperOf(pid: number | undefined): number {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ')
  return Number(children[0])
}

/** How many are run one after the other; 1,000 of them were once. */
const TIMES = Number(process.env['TEST_WRAPS'] ?? 6)
const CENSUS = new URL('../fixtures/wrap-census.js', import.meta.url).pathname

void tap.test(
  'nothing is left of many',
  { skip: NO_WRAP, timeout: TIMES * 5_000 + 60_000 },
  async (t) => {
    const desk = openWrapDesk(t)
    for (const caller of CALLERS) {
      const folders = [desk.folder, '/run'].join(':')
      const as = caller === 'root' ? [] : asOrdinaryUser()
      const wrap = [...as, process.execPath, desk.program, 'wrap', ...POLICY, '--', 'true']
      // Where nothing is but what this starts: on the machine itself other tests come and go.
      const own = ['--fork', '--pid', '--mount-proc', '--net', '--kill-child', 'sh', '-c']
      const script = 'ip link set lo up; cd "$1"; shift; env -u NODE_OPTIONS "$@"; exit $?'
      const words = [desk.folder, process.execPath, CENSUS, String(TIMES), folders, ...wrap]
      const child = spawn('unshare', [...own, script, 'sh', ...words])
      let output = ''
      let errors = ''
      child.stdout.on('data', (text: Buffer) => (output += text.toString()))
      child.stderr.on('data', (text: Buffer) => (errors += text.toString()))
      await once(child, 'close')
      t.equal(errors, '')
      const { before, after } = JSON.parse(output) as Record<
        'before' | 'after',
        Record<string, number>
      >
      // Mounts of the machine may go meanwhile, and none comes.
      const more = Object.keys(before).filter((what) => (after[what] ?? 0) > (before[what] ?? 0))
      t.strictSame(more, [], `${caller} ${output}`)
      t.match(before, { processes: 2 }, 'the census sees what is there')
    }
  },
)
