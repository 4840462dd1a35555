import { closeSync, constants, fstatSync, openSync, readFileSync, statSync } from 'node:fs'
import { EgressError } from '../errors.ts'
import { type ContainerRuntime, runtimeCommand } from './container-runtime.ts'

/** The network namespace of a container, held open: it stays that one, whatever becomes of the pid. */
export interface ContainerNamespace {
  /** The open file. */
  readonly descriptor: number
  close(): void
}

/**
 * Opens the network namespace of a running container.
 *
 * The pid that a runtime tells may be stale, and be somebody else's by now. So the process is pinned first, and what is
 * read about it afterwards is about that process and no other.
 *
 * @throws {EgressError} SANDBOX_DOOR_FAILED
 */
export async function openContainerNamespace(
  runtime: ContainerRuntime,
  containerId: string,
  signal: AbortSignal,
): Promise<ContainerNamespace> {
  const shortcut = openByCgroup(containerId)
  if (shortcut) return shortcut
  const args = ['inspect', '--type', 'container', '--format', '{{.State.Pid}}', containerId]
  const { code, stdout, stderr } = await runtimeCommand(runtime, args, { signal })
  const pid = /^\d{1,10}\n?$/.test(stdout) ? Number(stdout) : 0
  if (code !== 0) throw failed(`the container cannot be inspected: ${stderr.trim()}`)
  return openNamespaceOf(pid, containerId)
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
 * @throws {EgressError} SANDBOX_DOOR_FAILED; its cause has the code of the system if there is one
 */
export function openNamespaceOf(pid: number, containerId: string): ContainerNamespace {
  if (!(pid > 0)) throw failed('the container does not run')
  let process: number | undefined
  let descriptor: number | undefined
  try {
    process = openSync(`/proc/${pid}`, constants.O_RDONLY | constants.O_DIRECTORY)
    const pinned = `/proc/self/fd/${process}`
    descriptor = openSync(`${pinned}/ns/net`, constants.O_RDONLY)
    if (!isCgroupOf(readFileSync(`${pinned}/cgroup`, 'utf8'), containerId)) {
      throw failed(`process ${pid} is not in the container; the engine may run on another machine`)
    }
    const [theirs, ours] = [fstatSync(descriptor), statSync('/proc/self/ns/net')]
    if (theirs.ino === ours.ino && theirs.dev === ours.dev) {
      throw failed('the container has no network namespace of its own')
    }
    const opened = descriptor
    return { descriptor: opened, close: () => closeSync(opened) }
  } catch (error) {
    if (descriptor !== undefined) closeSync(descriptor)
    if (error instanceof EgressError) throw error
    const why = error instanceof Error ? error.message : String(error)
    throw failed(`the namespace of process ${pid} cannot be opened: ${why}`, error)
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

function failed(why: string, cause?: unknown): EgressError {
  return new EgressError('SANDBOX_DOOR_FAILED', `no door into the container: ${why}`, { cause })
}
