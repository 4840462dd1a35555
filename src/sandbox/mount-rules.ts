import { readdirSync } from 'node:fs'
import { basename, join, relative } from 'node:path'
import { isWithin, normalPath, realOf, realStat } from './paths.ts'

/** What of the host no sandbox may hold. */
export interface HostPlaces {
  /** The caller's home folder. */
  readonly home: string
  /** Where runs are recorded. */
  readonly iterionHome: string
  /** Where the folders of runs are, with their sockets. */
  readonly tempRoot: string
}

/** The kernel's own trees: nothing of them, and nothing that reaches them. */
const KERNEL_TREES = ['/proc', '/sys', '/dev']
/** Where services of the host have their sockets; a single plain file of it may be bound. */
const SERVICE_TREES = ['/run', '/var/run']
/** Where engines keep images and containers. */
const ENGINE_TREES = ['/var/lib/docker', '/var/lib/containers', '/var/lib/containerd']
/** Folders by which the machine itself is run: read-only at most. */
const SYSTEM_TREES = ['/bin', '/boot', '/etc', '/lib', '/lib32', '/lib64', '/libx32'].concat([
  '/root',
  '/sbin',
  '/usr',
  '/var/spool',
])
/** Folders inside those in which people work. */
const WORK_TREES = ['/usr/src', '/usr/local/src']
/** What holds too much to be handed over as a whole, even to be read. */
const WHOLE = ['/', '/etc', '/home', '/root', '/usr', '/var', '/var/lib', '/var/spool']
/** The sockets of container engines, wherever they are. */
const ENGINE_SOCKET = /^(?:docker(?:[-.]raw)?|podman|containerd|crio|buildkitd)\.sock$/
/** How far a folder is searched for such a socket. */
const SOCKET_DEPTH = 3
const MAX_SEARCHED = 5_000

/**
 * Why a path of the host must not be bound; undefined if it may. Judged by what it is after every symbolic link, and by
 * its spelling: a socket that is not there now may be there later.
 */
export function unsafeSource(
  path: string,
  readOnly: boolean,
  places: HostPlaces,
): string | undefined {
  const spelt = normalPath(path)
  if (ENGINE_SOCKET.test(basename(spelt))) return 'it is the socket of a container engine'
  if (KERNEL_TREES.some((tree) => isWithin(tree, spelt))) return 'it is a tree of the kernel'
  const stat = realStat(spelt)
  if (stat === undefined) return 'it does not exist'
  const { real, isFolder, isFile } = stat
  if (ENGINE_SOCKET.test(basename(real))) return 'it is the socket of a container engine'
  if (KERNEL_TREES.some((tree) => isWithin(tree, real))) return 'it is a tree of the kernel'
  if (!isFolder && !isFile) return 'it is neither a folder nor a regular file'
  const reason = placeReason(real, isFolder, places)
  if (reason !== undefined) return reason
  if (!readOnly && isOfTheSystem(real, places)) {
    return 'the machine is run by what is in it, so it can only be bound read-only'
  }
  return isFolder && holdsEngineSocket(real)
    ? 'the socket of a container engine is in it'
    : undefined
}

/** The folder of a run for short-lived files, below the one for all of them. */
const RUN_FOLDER = /^iterion-egress-[^/]*(?:\/|$)/

function placeReason(
  real: string,
  isFolder: boolean,
  { home, iterionHome, tempRoot }: HostPlaces,
): string | undefined {
  const runs = realOf(join(iterionHome, 'runs'))
  if (isWithin(runs, real)) return 'it is in the record of runs'
  if (isWithin(real, runs)) return 'the record of runs is in it'
  if (WHOLE.includes(real)) return 'it holds too much of the host'
  if (isWithin(real, realOf(home))) return 'the home folder is in it'
  if (isWithin(real, realOf(tempRoot))) return 'the sockets of runs are in it'
  if (isWithin(realOf(tempRoot), real) && RUN_FOLDER.test(relative(realOf(tempRoot), real))) {
    return 'it belongs to a run'
  }
  if (ENGINE_TREES.some((tree) => isWithin(tree, real))) return 'a container engine keeps it'
  if (!isFolder) return undefined
  return SERVICE_TREES.some((tree) => isWithin(tree, real))
    ? 'services of the host have their sockets there'
    : undefined
}

function isOfTheSystem(real: string, { home }: HostPlaces): boolean {
  if ([...WORK_TREES, realOf(home)].some((tree) => isWithin(tree, real) && real !== tree))
    return false
  return SYSTEM_TREES.some((tree) => isWithin(tree, real))
}

/** Whether an engine's socket is near the top of a folder. */
function holdsEngineSocket(folder: string): boolean {
  let searched = 0
  let level = [folder]
  for (let depth = 0; depth < SOCKET_DEPTH; depth += 1) {
    const next: string[] = []
    for (const path of level) {
      for (const entry of searched < MAX_SEARCHED ? entriesOf(path) : []) {
        searched += 1
        if (entry.isSocket() && ENGINE_SOCKET.test(entry.name)) return true
        if (entry.isDirectory()) next.push(join(path, entry.name))
      }
    }
    level = next
  }
  return false
}

function entriesOf(path: string) {
  try {
    return readdirSync(path, { withFileTypes: true })
  } catch {
    // Who may not list it here may not list it inside either.
    return []
  }
}

/** Where the engine and this project put files of their own; nothing may lie over or under them. */
const OWN_TARGETS = [
  '/dev',
  '/proc',
  '/sys',
  '/run/iterion-egress',
  '/run/secrets',
  '/etc/passwd',
  '/etc/group',
].concat(['/etc/hostname', '/etc/hosts', '/etc/resolv.conf', '/etc/ld.so.preload'])

/** Why nothing may be bound at a path of the sandbox; undefined if it may. */
export function unsafeTarget(target: string): string | undefined {
  if (!target.startsWith('/')) return 'its target is not an absolute path'
  if (/[,:\p{Cc}]/u.test(target)) return 'its target has a comma, a colon or a control character'
  const path = normalPath(target).replace(/^\/var\/run(?=\/|$)/, '/run')
  const own = OWN_TARGETS.find((one) => isWithin(one, path) || isWithin(path, one))
  return own === undefined ? undefined : `its target would lie over ${own} of the sandbox`
}
