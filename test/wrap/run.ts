import { spawnSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import tap, { type Test } from 'tap'
import { pause } from '../support/proxy.ts'
import { type Desk, openDesk } from '../support/sandbox-run.ts'
import { waitFor } from '../support/serve-process.ts'
import { openHttpUpstream } from '../support/upstream.ts'
import { copyProgram, deskWith, ordinaryUser } from '../support/users.ts'
import { NO_WRAP } from '../support/wrap.ts'

// A run that finds no container runtime and has a policy: its nodes are sealed, or it does not run.

/** A search path with all that is here, but for some programs. */
function pathWithout(desk: Desk, names: readonly string[]): string {
  const folder = path.join(desk.folder, `without-${names.join('-')}`)
  mkdirSync(folder)
  for (const from of ['/usr/local/bin', '/usr/bin', '/bin']) {
    for (const name of readdirSync(from)) {
      const link = path.join(folder, name)
      if (!names.includes(name) && !existsSync(link)) symlinkSync(path.join(from, name), link)
    }
  }
  return folder
}

const RUNTIMES = ['docker', 'podman']

/** A desk of an ordinary user on a machine without a runtime. */
function openBareDesk(t: Test): Desk {
  const desk = openDesk(t, ordinaryUser())
  return deskWith(desk, { PATH: pathWithout(desk, RUNTIMES) }, copyProgram(t))
}

function write(desk: Desk, nodes: string, more = ''): void {
  const text = `name: sealed\nsandbox: { env: { SAID: here }, network: { rules: [allowed.test] } }\n${more}nodes:\n${nodes}`
  writeFileSync(path.join(desk.workspace, 'workflow.yaml'), text)
}

/** Asks without a proxy. */
const CURL = 'curl -sS -m 10 --noproxy "*"'

void tap.test('nodes reach what the policy allows', { skip: NO_WRAP }, async (t) => {
  const desk = openBareDesk(t)
  const { port } = await openHttpUpstream(t)
  write(
    desk,
    `  - { id: one, command: 'id -u; pwd; echo "$SAID $B $A_FILE"; ${CURL} http://allowed.test/; ${CURL} http://denied.test/ || echo " $?"; ${CURL} http://127.0.0.1:${port}/ || echo " $?"; touch one; (sleep 60 &)' }
  - { id: two, command: 'cat one; pgrep -x sleep; ${CURL} http://allowed.test/; exit 3' }
`,
    `secrets: [{ name: A, as: file, from: { file: workflow.yaml } }, { name: B, as: env, from: { env: WORD } }]\n`,
  )
  const words = ['--resolve', `allowed.test:80:127.0.0.1:${port}`]
  const run = await desk.run(['run', ...words, 'workflow.yaml'], { env: { WORD: 'a secret' } })
  const { uid } = ordinaryUser()
  t.equal(run.stdout, `${uid}\n${desk.workspace}\nhere a secret \nok 6\n 7\nok`, run.stderr)
  t.equal(run.code, 3)
  t.match(run.stderr, /warning: no container runtime .* held by a process seal to the policy of /)
  t.strictSame(desk.eventsOf('sandbox_skipped'), [
    { reason: 'no-runtime', seal: 'process', file_secrets_dropped: true },
  ])
  const sealed = { door: 'process', strength: 'process' } as const
  t.strictSame(desk.eventsOf('sandbox_network_sealed'), [sealed, sealed], 'one each')
  t.match(desk.eventsOf('network_blocked'), [{ host: 'denied.test' }])
  t.match(desk.record(), {
    status: 'failed_resumable',
    failure_code: 'NODE_FAILED',
    seal: 'process',
    container: null,
    exit_code: 3,
    checkpoint: { done: [{ node: 'one' }], next: 'two' },
  })
  t.match(desk.record().policy_digest, /^[0-9a-f]{64}$/)
  t.notMatch(JSON.stringify([desk.record(), desk.events()]), 'a secret')
  t.strictSame(desk.eventsOf('sandbox_stopped'), [{ status: 'failed_resumable', left_behind: [] }])
  t.strictSame(desk.leftovers(), [])
  const { id } = desk.record()
  const again = await desk.run(['resume', id], { env: { WORD: 'a secret' } })
  t.match(again, { code: 3, stdout: 'ok' }, 'the second node alone')
  t.match(desk.record(), { attempt: 2, seal: 'process' })
})

void tap.test(
  'a search for sockets that did not end is told once',
  { skip: NO_WRAP },
  async (t) => {
    const desk = openBareDesk(t)
    for (let i = 0; i < 1000; i++) mkdirSync(path.join(desk.workspace, `${i}`))
    write(desk, '  - { id: one, command: "true" }\n  - { id: two, command: "true" }\n')
    const warning = `iterion-egress: warning: there are too many files below "${desk.workspace}" to look for sockets in all: one that is left can be reached from inside\n`
    for (const command of [
      ['run', 'workflow.yaml'],
      ['wrap', '--mode', 'allowlist', '--', 'true'],
    ]) {
      const { code, stderr } = await desk.run(command)
      t.equal(code, 0)
      t.equal(stderr.split(warning).length, 2, stderr)
    }
    const { stdout } = await desk.run(['doctor', 'workflow.yaml'])
    t.match(stdout, /^warn +seal +placed and proven, but there are too many files below /m)
  },
)

void tap.test('plan and doctor say the same', { skip: NO_WRAP }, async (t) => {
  const desk = openBareDesk(t)
  write(desk, '  - { id: only, command: [touch, ran] }\n')
  const { code, stdout } = await desk.run(['plan', '--json', 'workflow.yaml'])
  t.equal(code, 0)
  t.match(JSON.parse(stdout), {
    sandboxed: false,
    mode: 'none',
    seal: 'process',
    warning: /no container runtime/,
    refusal: null,
    network: { kind: 'policy', rules: 1 },
    transparent: { ports: [80, 443] },
    sandbox: null,
    nodes: [{ command: ['touch', 'ran'] }],
  })
  const told = await desk.run(['plan', 'workflow.yaml'])
  t.match(
    told.stdout,
    /^sandbox +no container; each node in a process seal \(said by: workflow\)$/m,
  )
  const doctor = await desk.run(['doctor', '--json', 'workflow.yaml'])
  t.equal(doctor.code, 0, doctor.stdout)
  t.match(
    doctor.stdout,
    /"name": ?"seal",\s*"status": ?"(?:pass|warn)",\s*"detail": ?"placed and proven/,
  )
  t.notOk(existsSync(path.join(desk.workspace, 'ran')))
})

void tap.test('signals are the node’s', { skip: NO_WRAP }, async (t) => {
  const desk = openBareDesk(t)
  write(desk, `  - { id: only, command: 'echo up; exec sleep 60' }\n`)
  for (const [signal, expected] of [
    ['SIGTERM', 143],
    ['SIGINT', 130],
  ] as const) {
    const run = desk.start(['run', 'workflow.yaml'])
    await run.hears('up')
    run.child.kill(signal)
    t.equal((await run.done).code, expected, signal)
    t.match(desk.record(), { status: 'cancelled' })
  }
  // One that does not heed the first is ended by the second. The number is nobody else's.
  const sleep = `sleep 61.${process.pid}`
  write(
    desk,
    `  - { id: only, command: 'trap "" TERM INT; echo up $PPID; ${sleep} & wait; ${sleep}' }\n`,
  )
  const run = desk.start(['run', 'workflow.yaml'])
  await run.hears('up')
  run.child.kill('SIGTERM')
  await pause(300)
  run.child.kill('SIGTERM')
  t.equal((await run.done).code, 143)
  await waitFor(() => (spawnSync('pgrep', ['-fx', sleep]).status === 1 ? true : undefined))
})

void tap.test('what a node reads is given to it', { skip: NO_WRAP }, async (t) => {
  const desk = openBareDesk(t)
  const folder = path.join(desk.folder, 'iterion')
  writeFileSync(folder, '#!/bin/sh\ncat\n', { mode: 0o755 })
  write(desk, '  - { id: only, backend: claw, command: a task }\n')
  const { code, stdout, stderr } = await desk.run(['run', 'workflow.yaml'], {
    env: { ITERION_BIN: folder },
  })
  t.equal(code, 0, stderr)
  t.match(JSON.parse(stdout), { type: 'task', data: { user_prompt: 'a task' } })
})

/** Runs the program where user namespaces have run out. */
const WITHOUT_NAMESPACES = `
echo 1 > /proc/sys/user/max_user_namespaces
exec unshare --user --map-user="$1" --map-group="$2" sh -c 'shift 2; exec "$@"' sh "$@"
`
/** Runs it where there is no unshare. */
const WITHOUT_UNSHARE = `
cp /usr/bin/unshare .unshare
mount --bind /dev/null "$(readlink -f /usr/bin/unshare)"
exec ./.unshare --user --map-user="$1" --map-group="$2" sh -c 'shift 2; exec "$@"' sh "$@"
`

void tap.test('what cannot be sealed does not run', { skip: NO_WRAP }, async (t) => {
  const desk = openBareDesk(t)
  const { uid, gid } = ordinaryUser()
  write(desk, '  - { id: only, command: [touch, ran] }\n')
  const program = copyProgram(t)
  const launcherOf = (name: string, script: string) => {
    const launcher = path.join(desk.folder, name)
    const words = ['-Urm', 'sh', '-c', script, 'sh', uid, gid, process.execPath, program]
    writeFileSync(
      launcher,
      `const args = ${JSON.stringify(words.map(String))}.concat(process.argv.slice(2))
process.exitCode = require('node:child_process').spawnSync('unshare', args, { stdio: 'inherit' }).status
`,
    )
    return launcher
  }
  const launcher = launcherOf('without-namespaces.cjs', WITHOUT_NAMESPACES)
  const why = 'no container runtime \\(docker or podman\\) is on PATH, and '
  const cases: readonly (readonly [what: string, Parameters<Desk['run']>[1], RegExp])[] = [
    [
      'without unshare',
      { program: launcherOf('without-unshare.cjs', WITHOUT_UNSHARE) },
      /the policy of .* cannot hold without one: a process seal is not possible: unshare is missing: it comes with util-linux; --sandbox none/,
    ],
    [
      'without user namespaces',
      { program: launcher },
      new RegExp(
        `${why}the seal around the command failed: unshare: unshare failed: No space left`,
      ),
    ],
  ]
  for (const [what, options, message] of cases) {
    const { code, stderr } = await desk.run(['run', 'workflow.yaml'], options)
    t.equal(code, 125, what)
    t.match(stderr, message)
    t.match(desk.record(), {
      status: 'failed',
      failure_code: 'SANDBOX_DRIVER_UNAVAILABLE',
      retry_class: 'deterministic',
      seal: null,
    })
    t.match(desk.eventsOf('sandbox_refused'), [{ failure_code: 'SANDBOX_DRIVER_UNAVAILABLE' }])
    t.strictSame(desk.eventsOf('sandbox_skipped'), [])
    t.strictSame(desk.eventsOf('node_started'), [])
    t.notOk(existsSync(path.join(desk.workspace, 'ran')), what)
  }
  const doctor = await desk.run(['doctor', 'workflow.yaml'], { program: launcher })
  t.match(doctor, { code: 1, stdout: /^fail +seal +the seal around the command failed/m })
})

void tap.test('root’s run is refused', { skip: NO_WRAP }, async (t) => {
  const desk = openDesk(t)
  write(desk, '  - { id: only, command: [touch, ran] }\n')
  const env = { PATH: pathWithout(desk, RUNTIMES) }
  for (const command of ['run', 'plan']) {
    const { stderr } = await desk.run([command, 'workflow.yaml'], { env })
    t.match(stderr, /cannot hold without one: root is not kept in by a process seal/)
    t.match(stderr, /SANDBOX_DRIVER_UNAVAILABLE/)
  }
  t.notOk(existsSync(path.join(desk.workspace, 'ran')))
  t.ok(readFileSync(path.join(desk.workspace, 'workflow.yaml')))
})
