import { lstatSync, readlinkSync, realpathSync, statSync } from 'node:fs'
import path from 'node:path'
import { EgressError } from '../errors.ts'
import { bytesOf, findSockets } from './seal-sockets.ts'

/** Where the sockets of the system's services are. It is covered first. */
const RUN = '/run'

/** Where the files lie that are bound over the host's, inside the seal. */
export const SEAL_FOLDER = `${RUN}/iterion-egress`

/** What is bound over a socket. */
export const EMPTY_FILE = `${SEAL_FOLDER}/empty`

/** The most sockets that are covered one by one. Each takes a mount. */
const MAX_SOCKETS = 500

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
  /** Sockets elsewhere, each covered by an empty file; here, as in `blind`, each character is a byte. */
  readonly sockets: readonly string[]
  /** Folders that cannot be listed, each covered by an empty one. */
  readonly blind: readonly string[]
  /** Folders that were not searched to their end, where a socket may be left; as bytes too. */
  readonly unsearched: readonly string[]
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
  const covered = [RUN, ...folders].map(bytesOf)
  const isCovered = (file: string) => covered.some((folder) => isBelow(file, folder))
  const found = findSockets(kept, homes)
  const sockets = found.sockets.filter((place) => !isCovered(place))
  const isKept = (folder: string) => kept.some((one) => isBelow(bytesOf(one), folder))
  const blind = found.blind.filter((folder) => !isCovered(folder) && !isKept(folder))
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
    blind,
    unsearched: found.unsearched.filter((folder) => !isCovered(folder)),
  }
}

function foldersToCover(runtimeFolder: string | undefined): readonly string[] {
  const given = runtimeFolder !== undefined && path.isAbsolute(runtimeFolder) ? runtimeFolder : RUN
  const found = ['/var/run', '/tmp/.X11-unix', '/dev/mqueue', given]
    .map(endOfLinks)
    .filter((folder) => folder !== undefined)
  return [...new Set(found)].filter(
    (folder) =>
      !isBelow(folder, RUN) &&
      !found.some((other) => other !== folder && isBelow(folder, other)) &&
      statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true,
  )
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
