import {
  accessSync,
  constants,
  existsSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  statSync,
} from 'node:fs'
import path from 'node:path'
import { engineOwner, engineSocket, isRootless } from '../../door/container-namespace.ts'
import type { ContainerRuntime, RuntimeName } from '../../door/container-runtime.ts'
import { EgressError } from '../../errors.ts'
import type { IdMapping } from '../account.ts'
import type { SandboxHost } from '../host.ts'

/** What the command line of an engine needs of the caller's environment to find its engine. */
export const PASSED =
  /^(?:PATH|HOME|USER|LOGNAME|TMPDIR|XDG_RUNTIME_DIR|XDG_CONFIG_HOME|DOCKER_\w+|CONTAINER_HOST|CONTAINERS_\w+|SSH_AUTH_SOCK)$/

/** What podman's configuration may say about the ids of containers does not hold: files would be nobody's here. */
const PODMAN_ENV = { PODMAN_USERNS: 'host' }

const NAMES: readonly RuntimeName[] = ['docker', 'podman']

/**
 * The container runtime of this machine: the first program of docker and podman on PATH, or the one that
 * `ITERION_SANDBOX_RUNTIME` names. That its engine is up is another question, and never a reason to go on without.
 *
 * @throws {EgressError} OPTION_INVALID for another name; SANDBOX_ENGINE_UNREACHABLE for an engine elsewhere, or of somebody
 * else
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
    const own = commandEnvironment(host)
    const env = { ...own, ...(name === 'docker' ? contextOf(host, own) : PODMAN_ENV) }
    assertLocal(name, env)
    const runtime = { name, program, globalArgs: [], env, spawn: host.spawn }
    assertOwner(runtime, host.user.uid)
    return [runtime]
  })
}

/** How the ids in sandboxes of the runtime of this machine relate to those outside. Throws as {@link findRuntime} does. */
export function idMapping(host: SandboxHost): IdMapping {
  const runtime = findRuntime(host)
  return runtime !== undefined && isRootless(runtime, host.user.uid) ? 'root-is-caller' : 'same'
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

/** The same for a program that sets up a network or mounts: those are in folders that are not on everybody's PATH. */
export function findSystemProgram(
  name: string,
  { env, cwd }: Pick<SandboxHost, 'env' | 'cwd'>,
): string | undefined {
  const PATH = `${env['PATH'] ?? ''}:/usr/sbin:/sbin`
  return findOnPath(name, { env: { ...env, PATH }, cwd })
}

/** True for a regular file that the caller may start. */
export function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return statSync(file).isFile()
  } catch {
    return false
  }
}

/** The workspace is bind-mounted: an engine on another machine has another one, or none. */
function assertLocal(name: RuntimeName, env: SandboxHost['env']): void {
  const variable = name === 'docker' ? 'DOCKER_HOST' : 'CONTAINER_HOST'
  const address = env[variable] ?? ''
  if (address === '' || address.startsWith('unix://') || address.startsWith('/')) return
  throw new EgressError(
    'SANDBOX_ENGINE_UNREACHABLE',
    `${name === 'docker' ? `${variable}, or the context of docker,` : variable} names an engine that is not reached by a socket of this machine; a remote engine cannot bind-mount the workspace`,
  )
}

/**
 * Whose the files are that a sandbox writes is told by who owns the engine, which costs a look at its socket and no
 * question: root's engine has the same numbers as this machine, the caller's own has the caller for root.
 */
function assertOwner(runtime: ContainerRuntime, uid: number): void {
  const owner = engineOwner(runtime, uid)
  const socket = engineSocket(runtime)
  if (owner === undefined || owner === 0 || socket === undefined) return
  if (owner === uid && runtime.name === 'docker' && isRootlessDocker(socket, uid)) return
  throw new EgressError(
    'SANDBOX_ENGINE_UNREACHABLE',
    `the engine at ${socket} belongs to UID ${owner}, and whose the files of a sandbox would be there is not known; take an engine of root, podman (ITERION_SANDBOX_RUNTIME=podman, without CONTAINER_HOST), or a rootless docker of this user, which has its docker.pid beside its socket`,
  )
}

/** True if a docker that listens there runs in a user namespace of the caller's: anybody can pass on the socket of root. */
function isRootlessDocker(socket: string, uid: number): boolean {
  try {
    const pid = readFileSync(path.join(path.dirname(realpathSync(socket)), 'docker.pid'), 'utf8')
    if (!/^\d{1,10}\n?$/.test(pid)) return false
    const folder = `/proc/${pid.trimEnd()}`
    const [theirs, ours] = [`${folder}/ns/user`, '/proc/self/ns/user'].map((one) =>
      readlinkSync(one),
    )
    return theirs !== ours && statSync(folder).uid === uid
  } catch {
    return false
  }
}

/**
 * The address that the current context of docker names, as the variable that stands for it: so the engine that is asked
 * is the one that was looked at. Empty if there is no such context, which docker itself tells then.
 */
function contextOf({ home }: SandboxHost, env: SandboxHost['env']): Record<string, string> {
  if (env['DOCKER_HOST']) return {}
  const folder = env['DOCKER_CONFIG'] || path.join(home, '.docker')
  const name = env['DOCKER_CONTEXT'] || readJson(path.join(folder, 'config.json')).currentContext
  if (!name || name === 'default') return {}
  const contexts = path.join(folder, 'contexts/meta')
  if (!existsSync(contexts)) return {}
  const address = readdirSync(contexts)
    .map((entry) => readJson(path.join(contexts, entry, 'meta.json')))
    .find(({ Name }) => Name === name)?.Endpoints?.docker?.Host
  return address ? { DOCKER_HOST: address } : {}
}

/** What is read of docker's configuration, and of its contexts. */
interface DockerFile {
  readonly currentContext?: string
  readonly Name?: string
  readonly Endpoints?: { readonly docker?: { readonly Host?: string } }
}

/** Empty for a file that cannot be read, as docker takes it. */
function readJson(file: string): DockerFile {
  try {
    return (JSON.parse(readFileSync(file, 'utf8')) as DockerFile | null) ?? {}
  } catch {
    return {}
  }
}

/** Messages in English, so that they can be told apart. */
function commandEnvironment({ env, home }: SandboxHost): Record<string, string> {
  const passed: Record<string, string> = {}
  for (const [name, value] of Object.entries(env)) {
    if (value !== undefined && PASSED.test(name)) passed[name] = value
  }
  return { ...passed, HOME: home, LC_ALL: 'C' }
}
