import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { listRuns } from '../../src/sandbox/run-archive.ts'
import { bareHost } from '../support/bare-host.ts'
import { runCli } from '../support/run-cli.ts'

// What run and resume make of their command line, on a machine without a runtime: nodes run bare, or not at all.

const BARE = ['run', '--sandbox', 'none']

void tap.test('a command line that cannot be understood is 125, and starts nothing', async (t) => {
  const table: [argv: string[], message: RegExp][] = [
    [['run'], /name a workflow file, or a command/],
    [['run', '--'], /there is no command behind --/],
    [['run', 'a.yaml', '--', 'true'], /either a workflow file or a command/],
    [['run', '--image', 'a', 'b.yaml'], /--image is for a command/],
    [['run', '--policy', 'a', 'b.yaml'], /only seat of its policy/],
    [['run', 'a.yaml', 'b.yaml'], /too many arguments/],
    [['run', '--nope', 'a.yaml'], /unknown option '--nope'/],
    [['run', '--sandbox', 'some', 'a.yaml'], /none, auto, inline/],
    [['run', '--door', 'back', 'a.yaml'], /auto, netns, sidecar, advisory/],
    [['run', '--sandbox-host-state', 'all', 'a.yaml'], /auto, none/],
    [['resume'], /missing required argument 'id'/],
    [['resume', 'a', 'b'], /too many arguments/],
  ]
  for (const [argv, message] of table) {
    // A host that is touched fails the command with another message.
    const { code, stdout, stderr } = await runCli(argv)
    t.equal(code, 125, argv.join(' '))
    t.equal(stdout, '', argv.join(' '))
    t.match(stderr, message)
  }
})

void tap.test('what is wrong with files and values is 125, with its code', async (t) => {
  const host = bareHost(t)
  writeFileSync(path.join(host.cwd, 'bad.yaml'), 'name: x\nnode: []\n')
  writeFileSync(path.join(host.cwd, 'list.json'), '[]')
  const table: [argv: string[], message: RegExp][] = [
    [['run', 'none.yaml'], /no such file.*FILE_UNREADABLE/],
    [['run', 'bad.yaml'], /bad\.yaml:2:1: unknown key "node".*WORKFLOW_SHAPE/],
    [[...BARE, '--env', 'A-B=1', '--', 'true'], /no name of a variable.*USAGE/],
    [
      [...BARE, '--env', `A=${'x'.repeat(131_070)}`, '--', 'true'],
      /--env A: a variable and its name have less than 128 KiB.*USAGE/,
    ],
    [[...BARE, '--env', 'NOT_SET', '--', 'true'], /--env NOT_SET=VALUE.*USAGE/],
    [[...BARE, '--resolve', 'x', '--', 'true'], /the form is HOST.*USAGE/],
    [[...BARE, '--image', '-v', '--', 'true'], /cannot be the name of an image.*OPTION_INVALID/],
    [[...BARE, '--schedule-record', `${host.cwd}/list.json`, '--', 'true'], /no JSON object/],
    [['resume', '20270101T000000-00000000'], /there is no run.*RUN_UNKNOWN/],
    [['resume', '../../etc'], /there is no run.*RUN_UNKNOWN/],
  ]
  for (const [argv, message] of table) {
    const { code, stderr } = await runCli(argv, '', { host })
    t.equal(code, 125, argv.join(' '))
    t.match(stderr, message)
  }
  t.strictSame(listRuns(host), [], 'none of them is a run')
})

void tap.test('what stands behind -- is the command, options and all', async (t) => {
  const host = bareHost(t)
  const file = path.join(host.cwd, 'words')
  const script = 'file=$1; shift; printf "%s\\n" "$@" > "$file"'
  const words = ['--json', '--help', '-V', '--', '--image', 'a b', '']
  const argv = [...BARE, '--', '/bin/sh', '-c', script, 'sh', file, ...words]
  const { code, stdout, stderr } = await runCli(argv, '', { host })
  t.strictSame([code, stdout], [0, ''], stderr)
  t.equal(readFileSync(file, 'utf8'), words.map((word) => `${word}\n`).join(''))
  t.match(stderr, /^iterion-egress: run \d{8}T\d{6}-[\da-f]{8}$/m)
  t.match(stderr, /warning C128/)
})

void tap.test('-- means that to run alone', async (t) => {
  const { code } = await runCli(['test', '--rule', 'a.test', '--', 'a.test'])
  t.equal(code, 0)
})

void tap.test('the exit code is that of the command', async (t) => {
  const host = bareHost(t)
  for (const [script, code] of [
    ['exit 0', 0],
    ['exit 7', 7],
    ['kill -9 $$', 137],
  ] as const) {
    const result = await runCli([...BARE, '--', '/bin/sh', '-c', script], '', { host })
    t.equal(result.code, code, script)
  }
  const gone = await runCli([...BARE, '--', '/no/such/program'], '', { host })
  t.match(gone, {
    code: 127,
    stderr: /node command: \/no\/such\/program cannot be started: there is no such program/,
  })
  const denied = await runCli([...BARE, '--', '/etc/passwd'], '', { host })
  t.match(denied, { code: 126, stderr: /it is not for this user to start/ })
  const nowhere = await runCli([...BARE, '--workspace', '/no/such', '--', 'true'], '', { host })
  t.match(nowhere, { code: 125, stderr: /the workspace \/no\/such is not a folder/ })
})

void tap.test('a refused run is 125 and tells its code, in the record too', async (t) => {
  const host = bareHost(t)
  const argv = ['run', '--image', 'debian:bookworm', '--', 'true']
  const { code, stderr } = await runCli(argv, '', { host })
  t.equal(code, 125)
  t.match(stderr, /\[SANDBOX_DRIVER_UNAVAILABLE\]/)
  t.match(listRuns(host), [
    {
      status: 'failed',
      failure_code: 'SANDBOX_DRIVER_UNAVAILABLE',
      error: /^\[SANDBOX_DRIVER_UNAVAILABLE\] /,
      retry_class: 'deterministic',
    },
  ])
})

void tap.test('--json leaves standard output to the command', async (t) => {
  const host = bareHost(t)
  const done = await runCli([...BARE, '--json', '--', '/bin/true'], '', { host })
  t.equal(done.stdout, '')
  const record = JSON.parse(done.stderr.slice(done.stderr.indexOf('{')))
  t.match(record, { status: 'finished', exit_code: 0, source: { command: ['/bin/true'] } })
  const failed = await runCli(['resume', '--json', 'nope'], '', { host })
  t.equal(failed.stdout, '')
  t.match(JSON.parse(failed.stderr), { error: { code: 'RUN_UNKNOWN', at: null } })
  const usage = await runCli(['run', '--json', '--nope'])
  t.equal(usage.stdout, '')
  const last = usage.stderr.trimEnd().split('\n').at(-1) ?? ''
  t.match(JSON.parse(last), { error: { code: 'USAGE' } }, 'as docs/cli.md says')
})

void tap.test('a schedule record is told how the run ended, and keeps the rest', async (t) => {
  const host = bareHost(t)
  const file = path.join(host.cwd, 'schedule.json')
  writeFileSync(file, '{"cron":"@daily","last_run_status":"finished"}')
  const argv = [...BARE, '--schedule-record', file, '--', '/bin/false']
  t.equal((await runCli(argv, '', { host })).code, 1)
  t.match(JSON.parse(readFileSync(file, 'utf8')), {
    cron: '@daily',
    last_run_id: listRuns(host)[0]?.id,
    last_run_status: 'failed_resumable',
    last_run_error_code: 'NODE_FAILED',
    last_run_at: String,
  })
})

void tap.test('values of --env are not recorded, and asked for again', async (t) => {
  const host = bareHost(t, { env: { PATH: '', TAKEN: 'from the caller' } })
  const file = path.join(host.cwd, 'out')
  const script = `echo "$GIVEN $TAKEN" >> ${file}; test -n "$LAST"`
  const env = ['--env', 'GIVEN=a=b', '--env', 'TAKEN']
  await runCli([...BARE, ...env, '--', '/bin/sh', '-c', script], '', { host })
  t.equal(readFileSync(file, 'utf8'), 'a=b from the caller\n')
  const [record] = listRuns(host)
  t.strictSame(record?.flags.env, ['GIVEN', 'TAKEN'])
  t.notMatch(JSON.stringify(record), 'a=b')
  const id = record?.id ?? ''
  const without = await runCli(['resume', id, '--env', 'TAKEN'], '', { host })
  t.match(without, { code: 125, stderr: /was started with --env GIVEN;.*USAGE/ })
  const argv = ['resume', id, '--env', 'TAKEN', '--env', 'GIVEN=c', '--env', 'LAST=1']
  t.match(await runCli(argv, '', { host }), { code: 0 })
  t.equal(readFileSync(file, 'utf8'), 'a=b from the caller\nc from the caller\n')
  t.match(listRuns(host), [{ id, status: 'finished', attempt: 2 }])
})
