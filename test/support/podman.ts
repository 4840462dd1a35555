import { spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Test } from 'tap'
import { type ContainerRuntime, runtimeCommand } from '../../src/door/container-runtime.ts'
import { systemSpawner } from '../../src/door/spawn.ts'
import { NO_ENGINE, TEST_IMAGE } from './docker.ts'
import { type Desk, openDesk } from './sandbox-run.ts'

/** Everything that podman keeps for tests; it stays between them, as making it costs seconds. */
const STORE = path.join(tmpdir(), 'iterion-egress-podman')

/** Why tests with podman cannot run here; false if they can. For the `skip` of a test: in CI a skip is a failure. */
export const NO_PODMAN: string | false = whyNoPodman()

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
  mkdirSync(STORE, { recursive: true, mode: 0o700 })
  const own = Object.entries(engineEnv).map(([name, value]) => JSON.stringify(`${name}=${value}`))
  const suffix = own.length === 0 ? '' : `-${process.pid}`
  const containers = path.join(STORE, `containers${suffix}.conf`)
  const storage = path.join(STORE, 'storage.conf')
  const folder = (name: string) => JSON.stringify(path.join(STORE, name))
  writeFileSync(
    containers,
    `[containers]
default_ulimits = ["nofile=1024:4096", "nproc=4096:4096"]
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
    `[storage]\ndriver = "overlay"\ngraphroot = ${folder('root')}\nrunroot = ${folder('run')}\n`,
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
  const own = { ITERION_SANDBOX_RUNTIME: 'podman', ...podmanEnv(engineEnv) }
  const start: Desk['start'] = (args, options = {}) =>
    desk.start(args, { ...options, env: { ...own, ...options.env } })
  const run: Desk['run'] = (args, options) => start(args, { input: '', ...options }).done
  return {
    ...desk,
    start,
    run,
    runCommand: (options, command) =>
      run(['run', '--image', TEST_IMAGE, ...options, '--', ...command]),
  }
}
