import {
  type Dirent,
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  statSync,
} from 'node:fs'
import path from 'node:path'
import { EgressError } from '../errors.ts'

/** Where the sockets of the system's services are. It is covered first. */
const RUN = '/run'

/** Where the files lie that are bound over the host's, inside the seal. */
export const SEAL_FOLDER = `${RUN}/iterion-egress`

/** What is bound over a socket. */
export const EMPTY_FILE = `${SEAL_FOLDER}/empty`

/** The most sockets that are covered one by one. Each takes a mount. */
const MAX_SOCKETS = 500

/** Where every user's programs put sockets. */
const TEMPORARY = ['/tmp', '/var/tmp']

/** How deep folders are searched: `/tmp/ssh-X/agent.1` is in the second, `~/.config/a-program/its.sock` in the third. */
const DEPTH = 2
const HOME_DEPTH = 3

/** The most folders that are looked into, those that lie higher first, and entries of one of them. */
const MAX_FOLDERS = 500
const MAX_ENTRIES = 20_000

/** Full of files that are no sockets. */
const LEFT_OUT = new Set(['node_modules', '.git', '.cache'])

/** What of the host's files is covered inside a seal. */
export interface SealPlaces {
  /** The folder that is covered first. */
  readonly run: string
  /** The file that names the resolver, as its links lead to it; undefined: there is none. */
  readonly resolv: string | undefined
  /** The file that says where names come from; undefined: this system has none. */
  readonly nsswitch: string | undefined
  readonly hosts: string | undefined
  /** Further folders that are covered by empty ones. */
  readonly folders: readonly string[]
  /** Sockets elsewhere, each covered by an empty file. */
  readonly sockets: readonly string[]
}

/**
 * What has to be covered on this machine: every folder that services have their sockets in, and each socket that has a
 * name elsewhere (agents, terminal multiplexers, editors, databases, engines of a user's own).
 *
 * A socket outlives the namespaces of a network: whoever can open its file speaks with a process that has the host's. The
 * system lists the names that sockets of this network were made under. They may have got others since, or be of another
 * network: so it is also looked into the folders of those, and those where programs of a user put theirs.
 *
 * @param runtimeFolder `XDG_RUNTIME_DIR`
 * @param kept folders that have to stay: the one that the command works in. They are searched too
 * @param homes folders whose hidden folders are searched deeper, since programs keep their own there
 * @throws {EgressError} SANDBOX_DOOR_FAILED if one of those would be covered, or if there are too many sockets
 */
export function findSealPlaces(
  runtimeFolder: string | undefined,
  kept: readonly string[],
  homes: readonly string[],
): SealPlaces {
  const folders = foldersToCover(runtimeFolder)
  for (const folder of [RUN, ...folders]) {
    const lost = kept.find((one) => isBelow(one, folder))
    if (lost !== undefined) {
      throw new EgressError(
        'SANDBOX_DOOR_FAILED',
        `${lost} is not there inside: ${folder} is covered, since services have their sockets there; work in another folder`,
      )
    }
  }
  const isCovered = (file: string) => [RUN, ...folders].some((folder) => isBelow(file, folder))
  const named = namedSockets(readFileSync('/proc/self/net/unix', 'utf8'))
  const listed = named.flatMap((name) => socketAt(name) ?? [])
  const folderOf = (file: string) => path.dirname(file)
  const flat = named.map(folderOf).filter((folder) => folder !== '/' && !isCovered(folder))
  const places = [
    ...flat.map((folder) => ({ folder, depth: 1 })),
    ...[...TEMPORARY, ...kept].map((folder) => ({ folder, depth: DEPTH })),
    ...homes.map((folder) => ({ folder, depth: HOME_DEPTH, isHome: true })),
  ]
  const found = socketsIn(places.filter(({ folder }) => folder !== '/'))
  const sockets = [...new Set([...listed, ...found])].filter((place) => !isCovered(place))
  if (sockets.length > MAX_SOCKETS) {
    throw new EgressError(
      'SANDBOX_DOOR_FAILED',
      `there are ${sockets.length} sockets outside ${RUN}; at most ${MAX_SOCKETS} are covered`,
    )
  }
  return {
    run: RUN,
    resolv: endOfLinks('/etc/resolv.conf'),
    nsswitch: endOfLinks('/etc/nsswitch.conf'),
    hosts: endOfLinks('/etc/hosts'),
    folders,
    sockets,
  }
}

/**
 * The names of the sockets of a system.
 *
 * @param text its /proc/net/unix. A name that starts with `@` is of the namespace of its network, and not a file.
 */
export function namedSockets(text: string): readonly string[] {
  const names = text.split('\n').map((line) => /^\S+: (?:\S+ +){6}(\/.*)$/.exec(line)?.[1])
  return [...new Set(names.filter((name) => name !== undefined))]
}

/** A folder that is searched. */
interface Search {
  readonly folder: string
  /** 1: the folder alone. */
  readonly depth: number
  /** True: of its folders only the hidden ones are searched. */
  readonly isHome?: boolean
}

/** The sockets in folders, and in those below as deep as is said. Where the caller cannot look the command has none either. */
function socketsIn(searches: readonly Search[]): string[] {
  const sockets: string[] = []
  const seen = new Set<string>()
  for (let level = searches; level.length > 0;) {
    const below: Search[] = []
    for (const { folder, depth, isHome = false } of level) {
      if (depth === 0 || seen.has(folder) || seen.size === MAX_FOLDERS) continue
      seen.add(folder)
      for (const entry of entriesOf(folder)) {
        const { name } = entry
        const isLeft = LEFT_OUT.has(name) || (isHome && !name.startsWith('.'))
        if (entry.isSocket()) sockets.push(`${folder}/${name}`)
        else if (!isLeft && entry.isDirectory())
          below.push({ folder: `${folder}/${name}`, depth: depth - 1 })
      }
    }
    level = below
  }
  return sockets.flatMap((file) => socketAt(file) ?? [])
}

function entriesOf(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true }).slice(0, MAX_ENTRIES)
  } catch {
    return []
  }
}

function foldersToCover(runtimeFolder: string | undefined): readonly string[] {
  const given = runtimeFolder !== undefined && path.isAbsolute(runtimeFolder) ? runtimeFolder : RUN
  const found = ['/var/run', '/tmp/.X11-unix', '/dev/mqueue', given]
    .filter((folder) => existsSync(folder))
    .map((folder) => realpathSync(folder))
  return [...new Set(found)].filter(
    (folder) =>
      !isBelow(folder, RUN) &&
      !found.some((other) => other !== folder && isBelow(folder, other)) &&
      statSync(folder).isDirectory(),
  )
}

/** Where a socket is; undefined if nobody here can reach it: then neither can the command. */
function socketAt(name: string): string | undefined {
  try {
    const place = realpathSync(name)
    return statSync(place).isSocket() ? place : undefined
  } catch {
    return undefined
  }
}

/** Where a file is, also if its last link leads nowhere yet; undefined if there is none. */
function endOfLinks(file: string): string | undefined {
  try {
    return realpathSync(file)
  } catch {
    if (!lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink()) return undefined
    const end = path.join(path.dirname(file), readlinkSync(file))
    return isBelow(end, RUN) ? end : undefined
  }
}

function isBelow(file: string, folder: string): boolean {
  return file === folder || file.startsWith(folder === '/' ? folder : `${folder}/`)
}
