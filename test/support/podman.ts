import { execFileSync, spawnSync } from 'node:child_process'
import { chownSync, mkdirSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Test } from 'tap'
import { type ContainerRuntime, runtimeCommand } from '../../src/door/container-runtime.ts'
import { systemSpawner } from '../../src/door/spawn.ts'
import { NO_ENGINE, TEST_IMAGE } from './docker.ts'
import { type Desk, openDesk } from './sandbox-run.ts'
import { asOrdinaryUser, deskWith, NO_ROOTLESS, openUserDesk, ordinaryUser } from './users.ts'

/** Everything that podman keeps for tests; it stays between them, as making it costs seconds. */
const STORE = path.join(tmpdir(), 'iterion-egress-podman')

/** Why tests with podman cannot run here; false if they can. For the `skip` of a test: in CI a skip is a failure. */
export const NO_PODMAN: string | false = whyNoPodman()

/** The same for the podman of an ordinary user. */
export const NO_ROOTLESS_PODMAN: string | false = NO_PODMAN || NO_ROOTLESS

function whyNoPodman(): string | false {
  if (NO_ENGINE) return NO_ENGINE
  if (process.getuid?.() !== 0) return 'only root has a podman that is set up here'
  const { error } = spawnSync('podman', ['--version'])
  return error ? 'there is no podman here' : false
}

/**
 * The variables under which podman keeps all it has in a folder of the tests.
 *
 * @param engineEnv variables that podman sets for itself, as its configuration can
 */
export function podmanEnv(
  engineEnv: Readonly<Record<string, string>> = {},
): Record<string, string> {
  return configure(STORE, { engineEnv })
}

/** Lines of podman's configuration that a test is about. */
interface PodmanSettings {
  readonly engineEnv?: Readonly<Record<string, string>>
  /** Of its part `containers`. */
  readonly containers?: string
}

function configure(
  store: string,
  { engineEnv = {}, containers: more = '' }: PodmanSettings,
): Record<string, string> {
  mkdirSync(store, { recursive: true, mode: 0o700 })
  const own = Object.entries(engineEnv).map(([name, value]) => JSON.stringify(`${name}=${value}`))
  const suffix = own.length === 0 && more === '' ? '' : `-${process.pid}`
  const containers = path.join(store, `containers${suffix}.conf`)
  const storage = path.join(store, 'storage.conf')
  const folder = (name: string) => JSON.stringify(path.join(store, name))
  writeFileSync(
    containers,
    `[containers]
default_ulimits = ["nofile=1024:4096", "nproc=4096:4096"]
${more}
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
tmp_dir = ${folder('tmp')}
volume_path = ${folder('volumes')}
env = [${own.join(', ')}]
`,
  )
  writeFileSync(
    storage,
    `[storage]
driver = "overlay"
graphroot = ${folder('root')}
rootless_storage_path = ${folder('root')}
runroot = ${folder('run')}
`,
  )
  return { CONTAINERS_CONF: containers, CONTAINERS_STORAGE_CONF: storage }
}

/** The podman of this machine as the product drives it. */
export function podmanRuntime(): ContainerRuntime {
  const { PATH } = process.env
  return {
    name: 'podman',
    program: 'podman',
    globalArgs: [],
    env: { ...(PATH !== undefined && { PATH }), LC_ALL: 'C', ...podmanEnv() },
    spawn: systemSpawner,
  }
}

/** Runs a podman command and gives what it printed, without the last line break. A failure of it throws. */
export async function podman(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await runtimeCommand(podmanRuntime(), args)
  if (code !== 0) throw new Error(`podman ${args.join(' ')}: ${stderr}`)
  return stdout.replace(/\n$/, '')
}

/** Gives podman an image that docker has, unless it has that very one. */
export function loadIntoPodman(image: string = TEST_IMAGE): void {
  const env = { ...process.env, ...podmanEnv() }
  const idOf = (program: string) => {
    const args = ['image', 'inspect', '--format', '{{.Id}}', image]
    const { status, stdout } = spawnSync(program, args, { env, encoding: 'utf8' })
    return status === 0 ? stdout.trim().replace(/^sha256:/, '') : undefined
  }
  if (idOf('podman') === idOf('docker')) return
  const { status, stderr } = spawnSync(
    'sh',
    ['-c', 'docker save "$1" | podman load', 'sh', image],
    {
      env,
      encoding: 'utf8',
    },
  )
  if (status !== 0) throw new Error(`podman load: ${stderr}`)
}

/** A desk whose runs take podman, which has {@link TEST_IMAGE}. */
export function openPodmanDesk(t: Test, engineEnv: Readonly<Record<string, string>> = {}): Desk {
  const desk = openDesk(t)
  loadIntoPodman()
  return deskWith(desk, {
    ITERION_SANDBOX_RUNTIME: 'podman',
    ...podmanEnv(engineEnv),
  })
}

/** The podman of an ordinary user, and a desk of theirs whose runs take it. */
export interface RootlessPodman {
  readonly desk: Desk
  /** Runs a podman command as that user and gives what it printed. A failure of it throws. */
  readonly podman: (args: readonly string[]) => string
}

/**
 * Opens the podman of an ordinary user, which has {@link TEST_IMAGE}. What it keeps stays between tests, and no process
 * of it does.
 *
 * @param containers lines of the part `containers` of its configuration
 */
export function openRootlessPodman(t: Test, containers = ''): RootlessPodman {
  const { uid, gid } = ordinaryUser()
  const store = `${STORE}-${uid}`
  const runtimeFolder = path.join(store, 'user')
  const files = configure(store, { containers })
  mkdirSync(runtimeFolder, { recursive: true, mode: 0o700 })
  for (const one of [store, runtimeFolder, ...Object.values(files)]) chownSync(one, uid, gid)
  const own = { ...files, XDG_RUNTIME_DIR: runtimeFolder }
  const env = { PATH: process.env['PATH'], HOME: store, LC_ALL: 'C', ...own }
  const say = (args: readonly string[], input: string | Buffer = '') => {
    const [first, ...rest] = [...asOrdinaryUser(), 'podman', ...args]
    return execFileSync(first, rest, { cwd: store, env, input, encoding: 'utf8', stdio: 'pipe' })
  }
  // Its namespace is held by a process that outlives every command.
  t.teardown(() => say(['system', 'migrate']))
  const idIn = (answer: string) => answer.trim().replace(/^sha256:/, '')
  const ask = ['image', 'inspect', '--format', '{{.Id}}', TEST_IMAGE]
  const wanted = idIn(execFileSync('docker', ask, { encoding: 'utf8' }))
  if (!say(['images', '--quiet', '--no-trunc']).includes(wanted)) {
    say(['load'], execFileSync('docker', ['save', TEST_IMAGE], { maxBuffer: 2 ** 31 }))
  }
  const desk = openUserDesk(t, { ITERION_SANDBOX_RUNTIME: 'podman', ...own })
  return { desk, podman: (args) => say(args) }
}
