import {
  type Dirent,
  lstatSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
} from 'node:fs'
import { join } from 'node:path'

/**
 * A path as a string with one character a byte. Names of files need not be UTF-8, and what a sandbox made must not
 * escape by a name that cannot be read.
 */
export type RawPath = string

export function toRaw(path: string): RawPath {
  return Buffer.from(path, 'utf8').toString('latin1')
}

/** For people; bytes that are no UTF-8 are replaced. */
export function fromRaw(path: RawPath): string {
  return bytesOf(path).toString('utf8')
}

/** What is at a path, without following a link at its end. */
export function kindOf(path: RawPath): 'none' | 'file' | 'folder' | 'link' | 'other' {
  const stat = statOf(path)
  if (stat === undefined) return 'none'
  if (stat.isSymbolicLink()) return 'link'
  if (stat.isFile()) return 'file'
  return stat.isDirectory() ? 'folder' : 'other'
}

/** Tells apart what has the same path at two times; empty if nothing is there. */
export function identityOf(path: RawPath): string {
  const stat = statOf(path)
  return stat === undefined ? '' : `${stat.dev}:${stat.ino}`
}

/** What is in a folder; nothing if it cannot be listed. */
export function entriesOf(folder: RawPath): readonly Dirent[] {
  try {
    return readdirSync(bytesOf(folder), { withFileTypes: true, encoding: 'latin1' })
  } catch {
    return []
  }
}

/** The text of a file, one character a byte; undefined if it is larger than `maxBytes`, or cannot be read. */
export function readRaw(path: RawPath, maxBytes: number): string | undefined {
  try {
    const size = statOf(path)?.size ?? Infinity
    return size > maxBytes ? undefined : readFileSync(bytesOf(path), 'latin1')
  } catch {
    return undefined
  }
}

export function linkTarget(path: RawPath): RawPath {
  return readlinkSync(bytesOf(path), 'latin1')
}

/** Where a path really is. Throws if it is not there. */
export function realRaw(path: RawPath): RawPath {
  return realpathSync.native(bytesOf(path), { encoding: 'latin1' })
}

export function renameRaw(from: RawPath, to: RawPath): void {
  renameSync(bytesOf(from), bytesOf(to))
}

/** Every folder below a folder, itself first, with what is in it. Links are not followed. */
export function* foldersBelow(
  folder: RawPath,
  isEntered: (path: RawPath) => boolean,
): Generator<{ readonly path: RawPath; readonly entries: readonly Dirent[] }> {
  const waiting = [folder]
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    const entries = entriesOf(path)
    yield { path, entries }
    for (const entry of entries) {
      const below = join(path, entry.name)
      if (entry.isDirectory() && isEntered(below)) waiting.push(below)
    }
  }
}

function statOf(path: RawPath) {
  try {
    return lstatSync(bytesOf(path))
  } catch {
    // Not there, below a file, or not for the caller to see.
    return undefined
  }
}

function bytesOf(path: RawPath): Buffer {
  return Buffer.from(path, 'latin1')
}
