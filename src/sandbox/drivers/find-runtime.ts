import { accessSync, constants, statSync } from 'node:fs'
import path from 'node:path'
import type { ContainerRuntime, RuntimeName } from '../../door/container-runtime.ts'
import { EgressError } from '../../errors.ts'
import type { SandboxHost } from '../host.ts'

/** What the command line of an engine needs of the caller's environment to find its engine. */
const PASSED =
  /^(?:PATH|HOME|USER|LOGNAME|TMPDIR|XDG_RUNTIME_DIR|XDG_CONFIG_HOME|DOCKER_\w+|CONTAINER_HOST|CONTAINERS_\w+|SSH_AUTH_SOCK)$/

const NAMES: readonly RuntimeName[] = ['docker', 'podman']

/**
 * The container runtime of this machine: the first program of docker and podman on PATH, or the one that
 * `ITERION_SANDBOX_RUNTIME` names. That its engine is up is another question, and never a reason to go on without.
 *
 * @throws {EgressError} OPTION_INVALID for another name; SANDBOX_ENGINE_UNREACHABLE for an engine elsewhere
 */
export function findRuntime(host: SandboxHost): ContainerRuntime | undefined {
  return findRuntimes(host)[0]
}

/** All container runtimes of this machine that may be used, the first one first. Throws as {@link findRuntime} does. */
export function findRuntimes(host: SandboxHost): ContainerRuntime[] {
  const wanted = host.env['ITERION_SANDBOX_RUNTIME']
  if (wanted !== undefined && !NAMES.some((name) => name === wanted)) {
    throw new EgressError(
      'OPTION_INVALID',
      `ITERION_SANDBOX_RUNTIME=${JSON.stringify(wanted)}: the choices are docker and podman`,
    )
  }
  return NAMES.filter((name) => wanted === undefined || wanted === name).flatMap((name) => {
    const program = findOnPath(name, host)
    if (program === undefined) return []
    assertLocal(name, host)
    return [{ name, program, globalArgs: [], env: commandEnvironment(host), spawn: host.spawn }]
  })
}

/** Where a program is; undefined if PATH has none. */
export function findOnPath(
  name: string,
  { env, cwd }: Pick<SandboxHost, 'env' | 'cwd'>,
): string | undefined {
  for (const folder of (env['PATH'] ?? '').split(path.delimiter)) {
    const file = path.resolve(cwd, folder, name)
    if (folder !== '' && isProgram(file)) return file
  }
  return undefined
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return statSync(file).isFile()
  } catch {
    return false
  }
}

/** The workspace is bind-mounted: an engine on another machine has another one, or none. */
function assertLocal(name: RuntimeName, { env }: SandboxHost): void {
  const variable = name === 'docker' ? 'DOCKER_HOST' : 'CONTAINER_HOST'
  const address = env[variable] ?? ''
  if (address === '' || address.startsWith('unix://') || address.startsWith('/')) return
  throw new EgressError(
    'SANDBOX_ENGINE_UNREACHABLE',
    `${variable} names an engine that is not reached by a socket of this machine; a remote engine cannot bind-mount the workspace`,
  )
}

/** Messages in English, so that they can be told apart. */
function commandEnvironment({ env, home }: SandboxHost): Record<string, string> {
  const passed: Record<string, string> = {}
  for (const [name, value] of Object.entries(env)) {
    if (value !== undefined && PASSED.test(name)) passed[name] = value
  }
  return { ...passed, HOME: home, LC_ALL: 'C' }
}
