import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { buildProjectImage, PROJECT_IMAGE, TEST_IMAGE } from '../support/docker.ts'
import { loadIntoPodman, NO_PODMAN, openPodmanDesk, podmanEnv } from '../support/podman.ts'
import { ROOT } from '../support/sandbox-run.ts'

// The chain of a run, with podman as the runtime.

const POLICY = 'rules: ["allowed.test"]\n'

void tap.test('the exit code is that of the command', { skip: NO_PODMAN }, async (t) => {
  const desk = openPodmanDesk(t)
  for (const [command, code] of [
    [['true'], 0],
    [['sh', '-c', 'exit 7'], 7],
    [['sh', '-c', 'kill -KILL $$'], 137],
    [['no-such-program'], 127],
  ] as const) {
    const result = await desk.runCommand([], command)
    t.equal(result.code, code, `${command.join(' ')}: ${result.stderr}`)
  }
  const [started] = desk.eventsOf('sandbox_started')
  t.match(started, { runtime: 'podman', door: 'none', container: /^[\da-f]{64}$/ })
  t.strictSame(desk.leftovers(), [])
})

void tap.test(
  'standard input, output and error are three streams',
  { skip: NO_PODMAN },
  async (t) => {
    const desk = openPodmanDesk(t)
    const bytes = Array.from({ length: 200_000 }, (_, i) => `${i}\n`).join('')
    const args = ['run', '-i', '--image', TEST_IMAGE, '--', 'sh', '-c', 'cat; echo complaint >&2']
    const echoed = await desk.run(args, { input: bytes })
    t.equal(echoed.stdout, bytes)
    t.match(echoed.stderr, /^complaint$/m)
    const without = await desk.run(['run', '--image', TEST_IMAGE, '--', 'cat'], {
      input: 'unheard',
    })
    t.match(without, { code: 0, stdout: '' }, 'without -i there is nothing to read')
  },
)

void tap.test('a terminal is one', { skip: NO_PODMAN }, async (t) => {
  const desk = openPodmanDesk(t)
  const command = `${process.execPath} ${ROOT}/bin/iterion-egress.js run -i -t --image ${TEST_IMAGE}`
  const line = `stty cols 91 rows 33; ${command} -- sh -c 'tty && stty size'`
  const child = spawn('script', ['-qec', line, '/dev/null'], {
    cwd: desk.workspace,
    env: {
      PATH: process.env['PATH'],
      HOME: desk.home,
      TMPDIR: desk.tempRoot,
      ITERION_SANDBOX_RUNTIME: 'podman',
      ...podmanEnv(),
    },
  })
  let printed = ''
  child.stdout.on('data', (chunk: Buffer) => (printed += chunk.toString()))
  await once(child, 'close')
  t.match(printed, /\/dev\/pts\/\d+/)
  t.match(printed, /^33 91\r?$/m, 'the size of the terminal comes along')
})

void tap.test('a signal reaches the command, and two end it', { skip: NO_PODMAN }, async (t) => {
  const desk = openPodmanDesk(t)
  const waiting = 'echo up; while :; do sleep 0.05; done'
  for (const [signal, script, code] of [
    ['SIGTERM', waiting, 143],
    ['SIGINT', waiting, 130],
    ['SIGTERM', `trap 'exit 3' TERM; ${waiting}`, 3],
  ] as const) {
    const running = desk.start(['run', '--image', TEST_IMAGE, '--', 'sh', '-c', script])
    await running.hears('up')
    running.child.kill(signal)
    t.match(await running.done, { code }, `${signal} ${script}`)
    t.match(desk.record(), { status: 'cancelled', failure_code: 'RUN_CANCELLED' })
  }
  const script = `trap 'echo heard' INT; ${waiting}`
  const running = desk.start(['run', '--image', TEST_IMAGE, '--', 'sh', '-c', script])
  await running.hears('up')
  running.child.kill('SIGINT')
  await running.hears('heard')
  running.child.kill('SIGINT')
  t.match(await running.done, { code: 130 })
  t.strictSame(desk.leftovers(), [])
})

void tap.test('both doors are the only way out', { skip: NO_PODMAN }, async (t) => {
  const desk = openPodmanDesk(t)
  loadIntoPodman(await buildProjectImage())
  writeFileSync(path.join(desk.workspace, 'policy.yaml'), POLICY)
  const script = `cat /proc/net/dev | sed 1,2d | cut -d: -f1 | tr -d ' '
curl -s -o /dev/null -w '%{http_connect}\\n' https://denied.test/
curl -s --noproxy '*' -m 5 http://10.88.0.1:80/; echo $?`
  for (const [door, kind] of [
    ['netns', 'netns'],
    ['auto', 'netns'],
    ['sidecar', 'sidecar'],
  ] as const) {
    const options = ['--policy', 'policy.yaml', '--door', door, '--sidecar-image', PROJECT_IMAGE]
    const { code, stdout, stderr } = await desk.runCommand(options, ['sh', '-c', script])
    t.match({ code, stdout }, { code: 0, stdout: 'lo\n403\n7\n' }, stderr)
    t.match(desk.eventsOf('sandbox_network_sealed'), [{ door: kind }])
    t.match(desk.eventsOf('network_blocked'), [{ host: 'denied.test' }])
  }
  t.strictSame(desk.leftovers(), [])
})

void tap.test(
  'an image of the sidecar that is not here is named',
  { skip: NO_PODMAN },
  async (t) => {
    const desk = openPodmanDesk(t)
    writeFileSync(path.join(desk.workspace, 'policy.yaml'), POLICY)
    const options = [
      '--policy',
      'policy.yaml',
      '--door',
      'sidecar',
      '--sidecar-image',
      'localhost/none:1',
    ]
    const { code, stderr } = await desk.runCommand(options, ['true'])
    t.equal(code, 125)
    t.match(stderr, /SANDBOX_DOOR_FAILED.*localhost\/none:1, is not here; make it/)
  },
)

void tap.test('advisory listens at the bridge of podman', { skip: NO_PODMAN }, async (t) => {
  const desk = openPodmanDesk(t)
  writeFileSync(path.join(desk.workspace, 'policy.yaml'), POLICY)
  const { stdout, stderr } = await desk.runCommand(
    ['--policy', 'policy.yaml', '--door', 'advisory'],
    ['curl', '-s', '-o', '/dev/null', '-w', '%{http_connect}', 'https://denied.test/'],
  )
  t.equal(stdout, '403', stderr)
})

void tap.test(
  'secrets are files in memory that nobody else reads',
  { skip: NO_PODMAN },
  async (t) => {
    const desk = openPodmanDesk(t)
    writeFileSync(path.join(desk.workspace, 'token'), 'value-of-file-secret')
    writeFileSync(
      path.join(desk.workspace, 'workflow.yaml'),
      `name: secrets
sandbox: { image: "${TEST_IMAGE}", user: "1000:1001" }
secrets: [{ name: TOKEN, as: file, from: { file: token } }]
nodes:
  - id: show
    command: 'cat $TOKEN_FILE; stat -c " %u:%g %a" $TOKEN_FILE /run/secrets; stat -f -c %T /run/secrets; grep -c "/run/secrets .*noexec" /proc/mounts'
`,
    )
    const { stdout, stderr } = await desk.run(['run', 'workflow.yaml'])
    t.equal(stdout, 'value-of-file-secret 1000:1001 400\n 1000:1001 700\ntmpfs\n1\n', stderr)
  },
)

void tap.test('a mount is bound as it is named', { skip: NO_PODMAN }, async (t) => {
  const desk = openPodmanDesk(t)
  const source = path.join(desk.workspace, 'a b=c')
  writeFileSync(source, 'kept')
  writeFileSync(
    path.join(desk.workspace, 'workflow.yaml'),
    `name: mounts
sandbox:
  image: ${TEST_IMAGE}
  mounts: [{ source: "${source}", target: "/m/a b=c", read_only: true }]
nodes: [{ id: show, command: 'cat "/m/a b=c"; echo x > "/m/a b=c" || echo " kept"; echo new > new' }]
`,
  )
  const { stdout, stderr } = await desk.run(['run', 'workflow.yaml'])
  t.equal(stdout, 'kept kept\n', stderr)
  t.equal(readFileSync(path.join(desk.workspace, 'new'), 'utf8'), 'new\n')
  t.equal(statSync(path.join(desk.workspace, 'new')).uid, 0)
})
