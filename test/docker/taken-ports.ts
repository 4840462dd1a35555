import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { NO_ENGINE, startOutside, TEST_IMAGE } from '../support/docker.ts'
import { type Desk, openDesk, ROOT } from '../support/sandbox-run.ts'

const SKIP = NO_ENGINE || (process.getuid?.() === 0 ? false : 'only root hides a program')

/** A machine without `iptables-restore`: it is covered in a mount namespace of its own. */
const HIDDEN = 'mount --bind /dev/null "$(readlink -f /usr/sbin/iptables-restore)"; exec "$@"'

interface Result {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** Runs the program there. */
function runHidden(desk: Desk, ...args: readonly string[]): Promise<Result> {
  const program = path.join(ROOT, 'bin/iterion-egress.js')
  const words = ['--mount', 'sh', '-c', HIDDEN, 'hidden', process.execPath, program, ...args]
  const { home: HOME, tempRoot: TMPDIR, iterionHome: ITERION_HOME, workspace: cwd } = desk
  const { PATH, DOCKER_HOST } = process.env
  const env = { PATH, HOME, TMPDIR, ITERION_HOME, ...(DOCKER_HOST && { DOCKER_HOST }) }
  return new Promise((resolve) => {
    const child = execFile('unshare', words, { cwd, env }, (_, stdout, stderr) => {
      resolve({ code: child.exitCode ?? -1, stdout, stderr })
    })
  })
}

const BIND = `python3 -c "
import socket
for port in (80, 8080):
    try:
        socket.socket().bind(('0.0.0.0', port)); print(port, 'free')
    except OSError as error: print(port, error.strerror)"`

void tap.test(
  'where no rules can be set the door takes the ports, works, and everybody is told',
  { skip: SKIP },
  async (t) => {
    const desk = openDesk(t)
    const outside = await startOutside(t)
    const command = `${BIND}; curl -sS --noproxy '*' http://web.outside.test/x; curl -sS --noproxy '*' http://evil.test/`
    writeFileSync(
      path.join(desk.workspace, 'w.yaml'),
      `name: w
sandbox: { image: ${TEST_IMAGE}, network: { rules: ["web.outside.test:80", "db.outside.test:5432"] } }
nodes: [{ id: a, command: ${JSON.stringify(command)} }]
`,
    )
    const here = await desk.run(['plan', 'w.yaml'])
    t.match(here.stdout, /^unaware {2,}ports 80, 5432$/m)
    t.notMatch(here.stdout, /^taken/m)
    const plan = await runHidden(desk, 'plan', 'w.yaml')
    t.match(
      plan.stdout,
      /^taken {2,}ports 80, 5432: there is no iptables-restore on this machine$/m,
    )
    const resolve = ['--resolve', `web.outside.test:${outside.address}`]
    const run = await runHidden(desk, 'run', ...resolve, 'w.yaml')
    t.equal(run.stdout, '80 Address already in use\n8080 free\noutside 0\n')
    t.match(
      run.stderr,
      /warning: servers of the sandbox cannot listen on 80, 5432: iptables-restore/,
    )
    t.match(run.stderr, /Could not resolve host: evil\.test/)
    t.match(desk.eventsOf('sandbox_network_sealed'), [{ door: 'netns' }])
    const doctor = await runHidden(desk, 'doctor', '--strict', 'w.yaml')
    t.match(doctor.stdout, /^pass {2}door netns .*cannot listen on ports that the policy allows/m)
    const untried = await runHidden(desk, 'doctor', 'w.yaml')
    t.match(untried.stdout, /^pass {2}door netns .*cannot listen on ports that the policy allows/m)
    const fine = await desk.run(['run', ...resolve, 'w.yaml'], { input: '' })
    t.equal(fine.stdout, '80 free\n8080 free\noutside 0\n', 'with rules they are free')
  },
)

void tap.test('plan tells what is left to the proxy port', { skip: NO_ENGINE }, async (t) => {
  const desk = openDesk(t)
  const rules = ['a.test:*', 'b.test:22', '203.0.113.0/24:443', '127.0.0.1:8080']
  writeFileSync(
    path.join(desk.workspace, 'w.yaml'),
    `name: w
sandbox: { image: ${TEST_IMAGE}, network: { rules: ${JSON.stringify(rules)} } }
nodes: [{ id: a, command: "true" }]
`,
  )
  const { stdout } = await desk.run(['plan', 'w.yaml'])
  t.match(stdout, /^unaware {2,}ports 22, 80, 443, 8080; 203\.0\.113\.0\/24$/m)
  t.match(stdout, /^by proxy {2,}ports \*; 127\.0\.0\.1:8080$/m)
  const json = await desk.run(['plan', '--json', 'w.yaml'])
  t.match(JSON.parse(json.stdout), {
    transparent: {
      ports: [22, 80, 443, 8080],
      addresses: ['203.0.113.0/24'],
      synthetic_range: '127.64.0.0/10',
      only_by_proxy: { ports: '*', addresses: ['127.0.0.1:8080'] },
      taken: null,
    },
  })
  const open = await desk.run(['plan', '--json', '--image', TEST_IMAGE, '--', 'true'])
  t.match(JSON.parse(open.stdout), { transparent: null })
})
