import { closeSync, constants, fstatSync, openSync, readFileSync, statSync } from 'node:fs'
import { EgressError } from '../errors.ts'
import { type ContainerRuntime, runtimeCommand } from './container-runtime.ts'

/** The network namespace of a container, held open: it stays that one, whatever becomes of the pid. */
export interface ContainerNamespace {
  /** The open file. */
  readonly descriptor: number
  /** The user namespace that has to be entered first, as an open file; undefined: none, since the caller is root. */
  readonly userDescriptor: number | undefined
  close(): void
}

/** Where the command line of docker looks for its engine unless it is told. */
const DOCKER_SOCKET = '/var/run/docker.sock'

/** The socket that a runtime reaches its engine by; undefined if there is none: podman is then its own engine. */
export function engineSocket({ name, env }: ContainerRuntime): string | undefined {
  const address = env[name === 'docker' ? 'DOCKER_HOST' : 'CONTAINER_HOST'] ?? ''
  if (address === '') return name === 'docker' ? DOCKER_SOCKET : undefined
  return address.replace(/^unix:\/\//, '')
}

/**
 * Who owns the engine of a runtime; undefined if none is seen where it should listen.
 *
 * @param uid the caller
 */
export function engineOwner(runtime: ContainerRuntime, uid: number): number | undefined {
  const socket = engineSocket(runtime)
  if (socket === undefined) return uid
  try {
    return statSync(socket).uid
  } catch {
    return undefined
  }
}

/** True if an engine is the caller's own: root in its containers is the caller, who may enter their namespaces. */
export function isRootless(runtime: ContainerRuntime, uid: number): boolean {
  return uid !== 0 && engineOwner(runtime, uid) === uid
}

/**
 * Opens the network namespace of a running container.
 *
 * The pid that a runtime tells may be stale, and be somebody else's by now. So the process is pinned first, and what is
 * read about it afterwards is about that process and no other.
 *
 * @param uid the caller
 * @throws {EgressError} SANDBOX_DOOR_FAILED
 */
export async function openContainerNamespace(
  runtime: ContainerRuntime,
  containerId: string,
  signal: AbortSignal,
  uid = 0,
): Promise<ContainerNamespace> {
  const shortcut = openByCgroup(containerId)
  if (shortcut) return shortcut
  const args = ['inspect', '--type', 'container', '--format', '{{.State.Pid}}', containerId]
  const { code, stdout, stderr } = await runtimeCommand(runtime, args, { signal })
  const pid = /^\d{1,10}\n?$/.test(stdout) ? Number(stdout) : 0
  if (code !== 0) throw failed(`the container cannot be inspected: ${stderr.trim()}`)
  return openNamespaceOf(pid, containerId, isRootless(runtime, uid))
}

/** Where docker and podman put the processes of a container, under cgroupfs and systemd, cgroup v1 and v2. */
const CGROUPS: readonly ((id: string) => string)[] = [
  (id) => `pids/docker/${id}`,
  (id) => `docker/${id}`,
  (id) => `pids/system.slice/docker-${id}.scope`,
  (id) => `system.slice/docker-${id}.scope`,
]

/**
 * The namespace by way of the kernel's own list of the container's processes, which spares the engine a question. What
 * is found is held to the same checks; undefined if nothing is.
 */
function openByCgroup(containerId: string): ContainerNamespace | undefined {
  for (const folder of CGROUPS) {
    try {
      const list = readFileSync(`/sys/fs/cgroup/${folder(containerId)}/cgroup.procs`, 'utf8')
      return openNamespaceOf(Number(list.split('\n')[0]), containerId)
    } catch {
      // Another layout, or a process that has just ended: the engine knows.
    }
  }
  return undefined
}

/**
 * The network namespace of a process, if that process is in that container and the namespace is not our own.
 *
 * @param isOwn true if the engine is the caller's: the user namespace is opened as well
 * @throws {EgressError} SANDBOX_DOOR_FAILED; its cause has the code of the system if there is one
 */
export function openNamespaceOf(
  pid: number,
  containerId: string,
  isOwn = false,
): ContainerNamespace {
  if (!(pid > 0)) throw failed('the container does not run')
  let process: number | undefined
  let descriptor: number | undefined
  let userDescriptor: number | undefined
  const close = () => {
    if (descriptor !== undefined) closeSync(descriptor)
    if (userDescriptor !== undefined) closeSync(userDescriptor)
  }
  try {
    process = openSync(`/proc/${pid}`, constants.O_RDONLY | constants.O_DIRECTORY)
    const pinned = `/proc/self/fd/${process}`
    descriptor = openSync(`${pinned}/ns/net`, constants.O_RDONLY)
    if (isOwn) userDescriptor = openSync(`${pinned}/ns/user`, constants.O_RDONLY)
    // An ordinary user's engine may have no cgroups to put a container into.
    const isThere =
      isCgroupOf(readFileSync(`${pinned}/cgroup`, 'utf8'), containerId) ||
      (isOwn && isHostnameOf(readFileSync(`${pinned}/mountinfo`, 'utf8'), containerId))
    if (!isThere) {
      throw failed(`process ${pid} is not in the container; the engine may run on another machine`)
    }
    const [theirs, ours] = [fstatSync(descriptor), statSync('/proc/self/ns/net')]
    if (theirs.ino === ours.ino && theirs.dev === ours.dev) {
      throw failed('the container has no network namespace of its own')
    }
    return { descriptor, userDescriptor, close }
  } catch (error) {
    close()
    if (error instanceof EgressError) throw error
    const why = error instanceof Error ? error.message : String(error)
    throw failed(
      `the namespace of process ${pid} cannot be opened (root or a rootless engine of your own is needed; --door sidecar needs neither): ${why}`,
      error,
    )
  } finally {
    if (process !== undefined) closeSync(process)
  }
}

/** A part of a cgroup path that names a container: by docker or podman, under cgroupfs or systemd. */
const CONTAINER_PART = /^(?:docker-|libpod-|libpod-payload-)?([\da-f]{64})(?:\.scope)?$/

/**
 * True if a process is in that container and in none inside it.
 *
 * @param text its /proc/PID/cgroup, of cgroup v1 or v2
 * @param containerId the full id
 */
export function isCgroupOf(text: string, containerId: string): boolean {
  // A line is `number:controllers:path`; the innermost container of a path counts.
  const innermost = text
    .split('\n')
    .map((line) => /^\d+:[^:]*:(\/.*)$/.exec(line)?.[1] ?? '')
    .map((path) => path.split('/').findLast((part) => CONTAINER_PART.test(part)))
    .filter((part) => part !== undefined)
    .map((part) => CONTAINER_PART.exec(part)?.[1])
  return innermost.length > 0 && innermost.every((id) => id === containerId)
}

/**
 * True if the engine's own file of a container's name lies over `/etc/hostname` of a process. Only the engine can lay it
 * there: no mount of a sandbox may, and inside nobody mounts.
 *
 * @param text its /proc/PID/mountinfo
 * @param containerId the full id
 */
export function isHostnameOf(text: string, containerId: string): boolean {
  // A line is `id parent device root target options...`.
  const sources = text
    .split('\n')
    .map((line) => line.split(' '))
    .filter(([, , , , target]) => target === '/etc/hostname')
    .map(([, , , source = '']) => source)
  return (
    /^[\da-f]{64}$/.test(containerId) &&
    sources.length > 0 &&
    sources.every((source) =>
      ['hostname', 'userdata/hostname'].some((file) => source.endsWith(`/${containerId}/${file}`)),
    )
  )
}

function failed(why: string, cause?: unknown): EgressError {
  return new EgressError('SANDBOX_DOOR_FAILED', `no door into the container: ${why}`, { cause })
}
