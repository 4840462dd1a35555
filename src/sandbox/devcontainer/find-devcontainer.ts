import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  lstatSync,
  openSync,
  readFileSync,
  statSync,
} from 'node:fs'
import path from 'node:path'
import { EgressError } from '../../errors.ts'
import { isWithin, realStat } from '../paths.ts'

/** Where a repository may define its sandbox, the first one first. */
const PLACES = ['.devcontainer/devcontainer.json', '.devcontainer.json']
/** The most that such a file may hold, in bytes. */
const MAX_BYTES = 1024 * 1024

/** The file in which a repository defines its sandbox, read. */
export interface DevcontainerFile {
  /** Relative to the repository, for people and events. */
  readonly name: string
  /** Its folder, absolute and real: paths in it start there. */
  readonly folder: string
  readonly text: string
}

/**
 * The repository that a folder is in: the nearest folder above it, or itself, that holds `.git`. Undefined if there is
 * none: a folder that is in no repository has nobody who could define a sandbox for it.
 */
export function repositoryOf(folder: string): string | undefined {
  const start = realStat(folder)?.real
  for (let one = start; one !== undefined;) {
    if (existsSync(path.join(one, '.git'))) return one
    const parent = path.dirname(one)
    one = parent === one ? undefined : parent
  }
  return undefined
}

/** True if a repository has a file in which it defines its sandbox, whatever is in it. */
export function definesSandbox(repository: string): boolean {
  return devcontainerName(repository) !== undefined
}

/** The file in which a repository defines its sandbox, relative to it; undefined if it has none. */
export function devcontainerName(repository: string): string | undefined {
  return PLACES.find((name) => isThere(path.join(repository, name)))
}

/**
 * Reads the file in which a repository defines its sandbox. It is a regular file of the repository: a link that leads out,
 * a device or a file of more than 1 MiB is refused, and nothing else is taken in its place.
 *
 * @param repository absolute and real
 * @throws {EgressError} SANDBOX_SPEC_UNSAFE, FILE_UNREADABLE
 */
export function readDevcontainerFile(repository: string, name: string): DevcontainerFile {
  const file = path.join(repository, name)
  const real = realStat(file)?.real
  const folder = realStat(path.dirname(file))?.real
  if (real === undefined || folder === undefined) {
    throw new EgressError('SANDBOX_SPEC_UNSAFE', `${name}: the file leads nowhere`)
  }
  if (!isWithin(repository, real) || !isWithin(repository, folder)) {
    throw new EgressError('SANDBOX_SPEC_UNSAFE', `${name}: the file leads out of the repository`)
  }
  return { name, folder, text: readRegular(real, name) }
}

/**
 * Who owns a repository, or its file, and may not define a sandbox: neither the caller, nor root, nor who owns the
 * workspace that the caller chose to run in. Undefined if nobody else does. A folder that everybody writes can hold
 * anybody's `.git`.
 */
export function strangerOf(
  repository: string,
  name: string,
  workspace: string,
  uid: number,
): number | undefined {
  const known = new Set([0, uid, ownerOf(workspace)])
  const file = path.join(repository, name)
  const parts = [repository, path.join(repository, '.git'), path.dirname(file), file]
  return parts.map(ownerOf).find((owner) => owner !== undefined && !known.has(owner))
}

function ownerOf(file: string): number | undefined {
  try {
    return statSync(file).uid
  } catch {
    return undefined
  }
}

/** Also a link to nothing is there, and what may not be looked at: whoever made it meant something. */
function isThere(file: string): boolean {
  try {
    lstatSync(file)
    return true
  } catch (error) {
    return !['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')
  }
}

function readRegular(real: string, name: string): string {
  const unsafe = (why: string) => new EgressError('SANDBOX_SPEC_UNSAFE', `${name}: ${why}`)
  let descriptor: number | undefined
  try {
    descriptor = openSync(real, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
    const stat = fstatSync(descriptor)
    if (!stat.isFile()) throw unsafe('it is not a regular file')
    if (stat.size > MAX_BYTES) throw unsafe(`it has ${stat.size} bytes; the most is 1 MiB`)
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(
      readFileSync(descriptor),
    )
  } catch (error) {
    if (error instanceof EgressError) throw error
    const why = error instanceof TypeError ? 'it is not UTF-8' : (error as Error).message
    throw new EgressError('FILE_UNREADABLE', `${name}: ${why}`, { cause: error })
  } finally {
    if (descriptor !== undefined) closeSync(descriptor)
  }
}
