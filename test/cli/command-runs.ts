import tap from 'tap'
import { createRun } from '../../src/sandbox/run-store.ts'
import { bareHost } from '../support/bare-host.ts'
import { runCli } from '../support/run-cli.ts'
import { NO_FLAGS } from '../support/run-store.ts'

const ID = '20270101T000000-00000000'

void tap.test('a machine without runs has none to show, stop or reap', async (t) => {
  const host = bareHost(t)
  const table: [argv: string[], code: number, stdout: string, message: RegExp][] = [
    [['runs', 'list'], 0, '', /^there are no runs yet\n$/],
    [['runs', 'list', '--json'], 0, '[]\n', /^$/],
    [['runs', 'show', ID], 1, '', /there is no run.*RUN_UNKNOWN/],
    [['runs', 'show', '..'], 1, '', /there is no run.*RUN_UNKNOWN/],
    [['runs', 'stop', ID], 1, '', /there is no run.*RUN_UNKNOWN/],
    [['reap'], 0, 'containers removed: 0, runs settled: 0\n', /^$/],
  ]
  for (const [argv, code, stdout, message] of table) {
    const result = await runCli(argv, '', { host })
    t.strictSame([result.code, result.stdout], [code, stdout], argv.join(' '))
    t.match(result.stderr, message, argv.join(' '))
  }
  const { stdout } = await runCli(['reap', '--json'], '', { host })
  t.strictSame(JSON.parse(stdout), { containers: [], runs: [], left_behind: [], git_metadata: [] })
})

void tap.test('help and bad command lines of runs and reap touch no machine', async (t) => {
  for (const argv of [['runs'], ['runs', 'list'], ['runs', 'show'], ['runs', 'stop'], ['reap']]) {
    t.match(await runCli([...argv, '--help']), { code: 0, stdout: /^Usage: / }, argv.join(' '))
  }
  for (const argv of [
    ['runs', 'show'],
    ['runs', 'stop'],
    ['reap', 'x'],
    ['runs', 'nope'],
  ]) {
    t.equal((await runCli(argv)).code, 2, argv.join(' '))
  }
})

void tap.test('runs are listed with how they ended, and shown', async (t) => {
  const host = bareHost(t)
  const file = ['run', '--sandbox', 'none', '--']
  await runCli([...file, '/bin/false'], '', { host })
  const list = await runCli(['runs', 'list'], '', { host })
  t.match(list.stdout, /^\S+ {2}failed_resumable {2}\/bin\/false {2}NODE_FAILED\n$/)
  const [{ id }] = JSON.parse((await runCli(['runs', 'list', '--json'], '', { host })).stdout)
  const shown = await runCli(['runs', 'show', id], '', { host })
  t.match(shown.stdout, /^status +failed_resumable$/m)
  t.match(shown.stdout, /^failure +\[NODE_FAILED\] /m)
  t.match(shown.stdout, /^next +command$/m)
  t.match(shown.stdout, /^image +-\ndoor +-$/m)
  const json = await runCli(['runs', 'show', '--json', id], '', { host })
  t.match(JSON.parse(json.stdout), { v: 1, id, exit_code: 1 })
  const events = await runCli(['runs', 'show', '--events', id], '', { host })
  t.strictSame(
    events.stdout
      .trimEnd()
      .split('\n')
      .map((line) => (JSON.parse(line) as { type: string }).type),
    ['sandbox_skipped', 'node_started', 'node_finished', 'sandbox_stopped'],
  )
  t.match(await runCli(['runs', 'stop', id], '', { host }), {
    code: 1,
    stderr: /is failed_resumable already.*RUN_NOT_RESUMABLE/,
  })
})

void tap.test('a run whose process is gone is an orphan, until it is reaped', async (t) => {
  const host = bareHost(t)
  const { startTime } = host.identity
  const owner = { ...host.identity, startTime: `${startTime}0` }
  const handle = createRun(
    { ...host, identity: owner },
    {
      name: 'lost',
      status: 'running',
      failure_code: null,
      error: null,
      retry_class: null,
      workspace: host.cwd,
      scratch: null,
      container: null,
      source: { file: '/w.yaml', image: null, policy: null, command: null, preset_dirs: [] },
      flags: NO_FLAGS,
      spec_digest: '',
      policy_digest: null,
      checkpoint: { done: [], next: 'command' },
      exit_code: null,
    },
  )
  const { id } = handle.record
  handle.writeGuard('{ broken')
  t.match((await runCli(['runs', 'list'], '', { host })).stdout, /orphaned {10}lost\n/)
  t.match(await runCli(['runs', 'stop', id], '', { host }), {
    code: 4,
    stderr: /is gone; reap removes what it left.*RUN_ORPHANED/,
  })
  const reaped = await runCli(['reap'], '', { host })
  t.strictSame(reaped.stdout, 'containers removed: 0, runs settled: 1\n')
  t.match(
    reaped.stderr,
    /its workspace/,
    'a guard that cannot be read is told, and holds nobody up',
  )
  t.match(
    (await runCli(['runs', 'list'], '', { host })).stdout,
    /failed_resumable {2}lost {2}RUN_ORPHANED/,
  )
  handle.close()
})

void tap.test('a runtime that nobody knows is told', async (t) => {
  const host = bareHost(t, { env: { PATH: '', ITERION_SANDBOX_RUNTIME: 'lxc' } })
  t.match(await runCli(['reap'], '', { host }), { code: 2, stderr: /docker and podman/ })
})
