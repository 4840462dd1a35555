import { spawn } from 'node:child_process'
import { once } from 'node:events'
import tap from 'tap'
import { NO_ENGINE, TEST_IMAGE } from '../support/docker.ts'
import { openDesk, ROOT } from '../support/sandbox-run.ts'

void tap.test('the exit code is that of the command', { skip: NO_ENGINE }, async (t) => {
  const desk = openDesk(t)
  for (const [command, code] of [
    [['true'], 0],
    [['sh', '-c', 'exit 7'], 7],
    [['sh', '-c', 'kill -KILL $$'], 137],
    [['sh', '-c', 'kill -TERM $$'], 143],
    [['no-such-program'], 127],
    [['eval', 'exit 3'], 127],
    [['exit', '0'], 127],
    [['/etc/passwd'], 126],
  ] as const) {
    const result = await desk.runCommand([], command)
    t.equal(result.code, code, command.join(' '))
    t.match(desk.record(), {
      exit_code: code,
      status: code === 0 ? 'finished' : 'failed_resumable',
      failure_code: code === 0 ? null : 'NODE_FAILED',
    })
  }
  t.strictSame(desk.leftovers(), [])
})

void tap.test('words reach the command as they are', { skip: NO_ENGINE }, async (t) => {
  const desk = openDesk(t)
  const words = ['', ' ', '$HOME', '`id`', '"', "'", '\\', 'a\nb', '--', '-x', '$(id)', '*', 'é']
  const script = 'const [, ...words] = process.argv; console.log(JSON.stringify(words))'
  const { stdout } = await desk.runCommand([], ['node', '-e', script, '--', 'first', ...words])
  t.strictSame(JSON.parse(stdout), ['first', ...words])
})

void tap.test(
  'standard input, output and error are three streams',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    const bytes = Array.from({ length: 200_000 }, (_, i) => `${i}\n`).join('')
    const echoed = await desk.run(
      ['run', '-i', '--image', TEST_IMAGE, '--', 'sh', '-c', 'cat; echo complaint >&2'],
      { input: bytes },
    )
    t.equal(echoed.stdout, bytes)
    t.match(echoed.stderr, /^complaint$/m)
    const without = await desk.run(['run', '--image', TEST_IMAGE, '--', 'cat'], {
      input: 'unheard',
    })
    t.match(without, { code: 0, stdout: '' }, 'without -i there is nothing to read')
  },
)

void tap.test('a terminal is one', { skip: NO_ENGINE }, async (t) => {
  const desk = openDesk(t)
  const line = `stty cols 91 rows 33; ${process.execPath} ${ROOT}/bin/iterion-egress.js run -i -t --image ${TEST_IMAGE} -- sh -c 'tty; i=0; while [ "$(stty size)" = "0 0" ] && [ $i -lt 50 ]; do sleep 0.1; i=$((i+1)); done; stty size'`
  const child = spawn('script', ['-qec', line, '/dev/null'], {
    cwd: desk.workspace,
    env: { PATH: process.env['PATH'], HOME: desk.home, TMPDIR: desk.tempRoot },
  })
  let printed = ''
  child.stdout.on('data', (chunk: Buffer) => (printed += chunk.toString()))
  await once(child, 'close')
  t.match(printed, /\/dev\/pts\/\d+/)
  t.match(printed, /^33 91\r?$/m, 'the size of the terminal comes along')
})

const WAITING = 'echo up; while :; do sleep 0.05; done'

void tap.test(
  'a signal reaches the command, and what it makes of it counts',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    for (const [signal, script, code] of [
      ['SIGTERM', WAITING, 143],
      ['SIGINT', WAITING, 130],
      ['SIGHUP', WAITING, 129],
      ['SIGTERM', `trap 'echo bye; exit 3' TERM; ${WAITING}`, 3],
      ['SIGTERM', `trap 'exit 0' TERM; ${WAITING}`, 143],
    ] as const) {
      const running = desk.start(['run', '--image', TEST_IMAGE, '--', 'sh', '-c', script])
      await running.hears('up')
      running.child.kill(signal)
      const { code: seen, stdout } = await running.done
      t.equal(seen, code, `${signal} ${script}`)
      if (script.includes('bye')) t.match(stdout, /bye/)
      t.match(desk.record(), { status: 'cancelled', failure_code: 'RUN_CANCELLED' })
    }
    t.strictSame(desk.leftovers(), [])
  },
)

void tap.test('two signals end a command that ignores them', { skip: NO_ENGINE }, async (t) => {
  const desk = openDesk(t)
  const script = `trap 'echo heard' INT; trap '' TERM; ${WAITING}`
  const running = desk.start(['run', '--image', TEST_IMAGE, '--', 'sh', '-c', script])
  await running.hears('up')
  running.child.kill('SIGINT')
  await running.hears('heard')
  running.child.kill('SIGINT')
  t.match(await running.done, { code: 130 })
  t.match(desk.record(), { status: 'cancelled', container: null, scratch: null })
  t.strictSame(desk.leftovers(), [])
})

void tap.test(
  'a command line that means two things starts nothing',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    for (const args of [
      ['run'],
      ['run', '--image', TEST_IMAGE],
      ['run', '--image', TEST_IMAGE, '--'],
      ['run', 'workflow.yaml', '--', 'true'],
      ['run', 'workflow.yaml', '--image', TEST_IMAGE],
      ['run', 'workflow.yaml', '--policy', 'policy.yaml'],
      ['run', '--image', '-v/:/h', '--', 'true'],
      ['run', '--door', 'window', '--image', TEST_IMAGE, '--', 'true'],
      ['run', '--env', 'A B=1', '--image', TEST_IMAGE, '--', 'true'],
      ['run', '--env', 'NOT_SET', '--image', TEST_IMAGE, '--', 'true'],
      ['run', '--no-such-flag', '--image', TEST_IMAGE, '--', 'true'],
      ['resume', 'x'],
    ]) {
      const { code, stderr } = await desk.run(args)
      t.equal(code, 125, args.join(' '))
      t.not(stderr, '', args.join(' '))
    }
    t.strictSame(desk.records(), [])
  },
)

void tap.test(
  'the environment is that of the workflow and the operator, and no other',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    const value = `two\nlines "$x" 'y'`
    const args = [
      '--env',
      's=own',
      '--env',
      'n=own',
      '--env',
      'A=1',
      '--env',
      `B=${value}`,
      '--env',
      'C',
      '--image',
      TEST_IMAGE,
    ]
    const script = 'console.log(JSON.stringify(process.env))'
    const { stdout } = await desk.run(['run', ...args, '--', 'node', '-e', script], {
      env: { C: 'from the caller', SECRET_OF_HOST: 'x', HTTPS_PROXY: 'http://127.0.0.1:1' },
    })
    const env = JSON.parse(stdout) as Record<string, string>
    t.match(env, { s: 'own', n: 'own', A: '1', B: value, C: 'from the caller' })
    t.notOk('SECRET_OF_HOST' in env)
    t.notOk('HTTPS_PROXY' in env, 'an open network goes past no proxy')
  },
)
