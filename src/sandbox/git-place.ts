import { lstatSync, readFileSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { isWithin, realStat } from './paths.ts'
import { kindOf, toRaw } from './raw-path.ts'

/** What the `.git` of a workspace is. */
export type GitPlace =
  /** Nothing, so nothing is bound. */
  | { readonly kind: 'none' }
  /** A folder with the whole repository: `.git`, where a link in the workspace leads, or a bare one itself. */
  | { readonly kind: 'plain'; readonly folder: string }
  /** A file that leads to an entry of another repository, which leads back here. */
  | { readonly kind: 'worktree'; readonly entry: string; readonly common: string }
  /** Anything else; git on the host may follow it, the sandbox may not. */
  | { readonly kind: 'foreign'; readonly reason: string }

/** The most that a pointer file may hold, in bytes. */
const MAX_POINTER = 4096

/** Reads what the `.git` of a folder is. Git itself is not asked: it would run what the repository tells it to. */
export function readGitPlace(folder: string): GitPlace {
  const path = join(folder, '.git')
  const stat = kindOf(toRaw(path))
  if (stat === 'none') return isRepository(folder) ? { kind: 'plain', folder } : { kind: 'none' }
  if (stat === 'folder') return { kind: 'plain', folder: path }
  if (stat === 'link') {
    const real = realStat(path)
    const isInside = real?.isFolder === true && isWithin(folder, real.real) && real.real !== folder
    return isInside
      ? { kind: 'plain', folder: real.real }
      : foreign('.git is a symbolic link that leads out of the workspace')
  }
  return stat === 'file' ? readWorktree(folder, path) : foreign('.git is no file and no folder')
}

/**
 * A linked worktree is believed only if both ends say so: the file leads to an entry, and the entry's `gitdir` back to
 * this file. A sandbox can write one end.
 */
function readWorktree(folder: string, path: string): GitPlace {
  const text = readPointer(path)
  if (text === undefined || !text.startsWith('gitdir: ')) {
    return foreign('.git is a file that names no folder')
  }
  const entry = realStat(resolve(folder, text.slice('gitdir: '.length)))
  if (entry?.isFolder !== true) return foreign('.git leads to a folder that is not there')
  if (basename(dirname(entry.real)) !== 'worktrees') {
    return foreign('.git leads to a folder that is no worktree entry, as that of a submodule')
  }
  const common = dirname(dirname(entry.real))
  const commonText = readPointer(join(entry.real, 'commondir'))
  const named = commonText === undefined ? undefined : realStat(resolve(entry.real, commonText))
  if (named?.real !== common || !isRepository(common)) {
    return foreign('the worktree entry that .git leads to belongs to no repository')
  }
  const back = readPointer(join(entry.real, 'gitdir'))
  const backPath = back === undefined ? '' : resolve(entry.real, back)
  const backFolder = realStat(dirname(backPath))?.real
  if (basename(backPath) !== '.git' || backFolder !== folder) {
    return foreign('the worktree entry that .git leads to is that of another folder')
  }
  return { kind: 'worktree', entry: entry.real, common }
}

function foreign(reason: string): GitPlace {
  return { kind: 'foreign', reason }
}

function isRepository(folder: string): boolean {
  const kinds = { HEAD: 'file', config: 'file', objects: 'folder', refs: 'folder' }
  return Object.entries(kinds).every(([name, kind]) => kindOf(toRaw(join(folder, name))) === kind)
}

/** The first line of a small regular file; undefined if it is anything else. */
function readPointer(path: string): string | undefined {
  try {
    const stat = lstatSync(path)
    if (!stat.isFile() || stat.size > MAX_POINTER) return undefined
    return readFileSync(path, 'utf8').replace(/[\r\n]+$/, '')
  } catch {
    return undefined
  }
}
