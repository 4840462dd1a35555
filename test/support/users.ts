import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Test } from 'tap'
import { NO_ENGINE, TEST_IMAGE } from './docker.ts'
import { type Caller, type Desk, openDesk, ROOT } from './sandbox-run.ts'

const USER = 'iterion-egress-test'

/** Why tests as an ordinary user cannot run here; false if they can. In CI a skip is a failure. */
export const NO_USERS: string | false =
  NO_ENGINE || (process.getuid?.() === 0 ? false : 'only root can become another user')

/** Why tests with an ordinary user's own engine cannot run here; false if they can. In CI a skip is a failure. */
export const NO_ROOTLESS: string | false = NO_USERS || whyNoRootless()

function whyNoRootless(): string | false {
  const missing = ['newuidmap', 'rootlesskit'].find((name) => spawnSync(name, ['--help']).error)
  return missing === undefined ? false : `there is no ${missing} here`
}

/** An ordinary user of this machine who may talk to docker, as most who run containers are. Made if missing. */
export function ordinaryUser(): Caller & { readonly name: string } {
  // Test files that run side by side make one user, and none sees it half made.
  const add = `id ${USER} >/dev/null 2>&1 || useradd --create-home --groups docker --shell /bin/sh ${USER}`
  execFileSync('flock', ['/etc', 'sh', '-c', add])
  const number = (flag: string) => Number(execFileSync('id', [flag, USER], { encoding: 'utf8' }))
  return { uid: number('-u'), gid: number('-g'), name: USER }
}

/** The words before a command line of {@link ordinaryUser}. */
export function asOrdinaryUser(): readonly [string, ...string[]] {
  const { uid, gid } = ordinaryUser()
  return ['setpriv', `--reuid=${uid}`, `--regid=${gid}`, '--init-groups']
}

/** A copy of the program that everybody can read. */
export function copyProgram(t: Test): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'program-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  execFileSync(process.execPath, [path.join(ROOT, 'scripts/image-context.js'), folder])
  execFileSync('chmod', ['-R', 'a+rX', folder])
  return path.join(folder, 'bin/iterion-egress.js')
}

/** A desk whose runs have these variables, of this program or another copy of it. */
export function deskWith(
  desk: Desk,
  own: Readonly<Record<string, string>>,
  program?: string,
): Desk {
  const start: Desk['start'] = (args, options = {}) =>
    desk.start(args, { ...(program && { program }), ...options, env: { ...own, ...options.env } })
  const run: Desk['run'] = (args, options) => start(args, { input: '', ...options }).done
  return {
    ...desk,
    start,
    run,
    runCommand: (options, command) =>
      run(['run', '--image', TEST_IMAGE, ...options, '--', ...command]),
  }
}

/** A desk of {@link ordinaryUser}, with a copy of the program that everybody can read. */
export function openUserDesk(t: Test, own: Readonly<Record<string, string>> = {}): Desk {
  return deskWith(openDesk(t, ordinaryUser()), own, copyProgram(t))
}

/** A desk of somebody in the docker group who is numbers alone: there need be no account of them. */
export function openNumberDesk(t: Test, { uid, gid }: Caller): Desk {
  const desk = openDesk(t)
  for (const folder of [desk.home, desk.workspace, desk.tempRoot]) chownSync(folder, uid, gid)
  const [, , docker] = execFileSync('getent', ['group', 'docker'], { encoding: 'utf8' }).split(':')
  const words = [`--reuid=${uid}`, `--regid=${gid}`, `--groups=${docker}`, process.execPath]
  const launcher = path.join(desk.folder, 'launcher.cjs')
  writeFileSync(
    launcher,
    `const args = ${JSON.stringify([...words, copyProgram(t)])}.concat(process.argv.slice(2))
process.exitCode = require('node:child_process').spawnSync('setpriv', args, { stdio: 'inherit' }).status
`,
  )
  return deskWith(desk, {}, launcher)
}

/** A docker of {@link ordinaryUser}'s own, without a bridge. */
export interface RootlessDocker {
  /** For `DOCKER_HOST`. */
  readonly address: string
  /** Runs a docker command there and gives what it printed. A failure of it throws. */
  docker(args: readonly string[], input?: string): string
}

/** Starts a {@link RootlessDocker} that has {@link TEST_IMAGE}; it ends with the test. */
export async function startRootlessDocker(t: Test): Promise<RootlessDocker> {
  const { uid, gid } = ordinaryUser()
  const folder = mkdtempSync(path.join(tmpdir(), 'iet-'))
  const runtimeFolder = path.join(folder, 'run')
  mkdirSync(runtimeFolder, { mode: 0o700 })
  for (const one of [folder, runtimeFolder]) chownSync(one, uid, gid)
  const address = `unix://${runtimeFolder}/docker.sock`
  const script = `rm -f /run/docker /run/containerd /run/xtables.lock
exec dockerd --rootless --data-root ${folder}/data --exec-root ${folder}/exec -H ${address} --bridge=none --iptables=false`
  const kit = ['rootlesskit', '--net=host', '--copy-up=/etc', '--copy-up=/run']
  const [first, ...rest] = [
    ...asOrdinaryUser(),
    ...kit,
    '--propagation=rslave',
    `--state-dir=${runtimeFolder}/dockerd-rootless`,
    'sh',
    '-c',
    script,
  ]
  const child = spawn(first, rest, {
    cwd: folder,
    env: {
      PATH: `${process.env['PATH']}:/usr/sbin:/sbin`,
      HOME: folder,
      XDG_RUNTIME_DIR: runtimeFolder,
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const ended = once(child, 'close')
  let said = ''
  child.stderr.on('data', (text: Buffer) => (said = (said + text.toString()).slice(-2_000)))
  t.teardown(async () => {
    child.kill('SIGTERM')
    await ended
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  })
  const env = { ...process.env, DOCKER_HOST: address }
  for (let tries = 0; spawnSync('docker', ['info'], { env }).status !== 0; tries++) {
    if (tries === 100 || child.exitCode !== null) throw new Error(`no rootless docker: ${said}`)
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
  execFileSync(
    'sh',
    ['-c', 'env -u DOCKER_HOST docker save "$1" | docker load', 'sh', TEST_IMAGE],
    { env },
  )
  return {
    address,
    docker: (args, input = '') =>
      execFileSync('docker', args, { env, input, encoding: 'utf8', stdio: 'pipe' }),
  }
}

/** The way to the proxy, said by curl: 403 is its answer. */
const ASK = "curl -s -o /dev/null -w '%{http_connect}' https://denied.test/"

/**
 * Checks that what a sandbox of a rootless engine writes belongs to its caller, whatever the image says.
 *
 * @param imageOf makes an image of {@link TEST_IMAGE} with a user in that engine, and gives its name
 */
export async function checkRootlessOwners(
  t: Test,
  desk: Desk,
  imageOf: (user: string) => string,
): Promise<void> {
  const { uid, gid } = ordinaryUser()
  writeFileSync(path.join(desk.workspace, 'policy.yaml'), 'rules: ["allowed.test"]\n')
  for (const [imageUser, remapped] of [
    ['', undefined],
    ['root', undefined],
    ['4711:4711', '4711:4711'],
    ['www-data', 'www-data'],
  ] as const) {
    const image = imageUser === '' ? TEST_IMAGE : imageOf(imageUser)
    const file = `by image of ${imageUser}`
    const script = `echo x > '${file}'; id -u; ${ASK}`
    const args = ['run', '--image', image, '--policy', 'policy.yaml', '--', 'sh', '-c', script]
    const { stdout, stderr } = await desk.run(args)
    t.equal(stdout, '0\n403', `${file} ${stderr}`)
    t.match(statSync(path.join(desk.workspace, file)), { uid, gid }, file)
    const remap = { from: remapped, to: '0:0' }
    t.strictSame(desk.eventsOf('sandbox_user_remap'), remapped === undefined ? [] : [remap], file)
    t.strictSame(desk.eventsOf('sandbox_uid_mismatch_warning'), [], file)
    t.match(desk.eventsOf('sandbox_network_sealed'), [{ door: 'netns' }], file)
  }
}

/** Checks that a user who is pinned is warned about, unless it is root, and leaves nothing in the caller's workspace. */
export async function checkRootlessPinned(t: Test, desk: Desk): Promise<void> {
  const { uid, gid } = ordinaryUser()
  for (const [user, number, isCaller] of [
    ['root', 0, true],
    ['0:0', 0, true],
    [String(uid), uid, false],
    ['www-data', 33, false],
  ] as const) {
    const file = `by ${user.replace(':', '-')}`
    writeFileSync(
      path.join(desk.workspace, 'workflow.yaml'),
      `name: pinned
sandbox: { image: "${TEST_IMAGE}", user: "${user}", network: { rules: [allowed.test] } }
nodes: [{ id: n, command: 'id -u; ${ASK.replaceAll("'", "''")}; echo x > "${file}" || true' }]
`,
    )
    const { stdout, stderr } = await desk.run(['run', 'workflow.yaml'])
    t.equal(stdout, `${number}\n403`, `${user} ${stderr}`)
    const written = statSync(path.join(desk.workspace, file), { throwIfNoEntry: false })
    t.match(written, isCaller ? { uid, gid } : undefined, user)
    const warning = { user, caller: `${uid}:${gid}`, message: /root is the caller/ }
    t.match(desk.eventsOf('sandbox_uid_mismatch_warning'), isCaller ? [] : [warning], user)
    if (!isCaller) t.match(stderr, /warning: user .*root is the caller/, user)
  }
}

/** Checks that doors which a rootless engine cannot have are refused before anything runs. */
export async function checkRootlessDoors(t: Test, desk: Desk): Promise<void> {
  writeFileSync(path.join(desk.workspace, 'policy.yaml'), 'rules: ["allowed.test"]\n')
  for (const door of ['sidecar', 'advisory']) {
    const options = ['--policy', 'policy.yaml', '--door', door]
    const { code, stderr } = await desk.runCommand(options, ['touch', 'ran'])
    t.equal(code, 125, door)
    t.match(stderr, /SANDBOX_DOOR_FAILED.*rootless engine.*--door netns/, door)
    t.match(desk.record(), { status: 'failed_resumable', failure_code: 'SANDBOX_DOOR_FAILED' })
  }
  const chosen = await desk.runCommand(['--policy', 'policy.yaml', '--door', 'netns'], ['true'])
  t.equal(chosen.code, 0, chosen.stderr)
  t.notOk(existsSync(path.join(desk.workspace, 'ran')))
  t.strictSame(desk.leftovers(), [])
}
