import { lstatSync, rmdirSync, unlinkSync } from 'node:fs'
import { join } from 'node:path'
import { type GitPlace, readGitPlace } from './git-place.ts'
import { type Maker, realMaker } from './maker.ts'
import type { BindMount } from './mounts.ts'
import { nestedGit } from './nested-git.ts'
import { fromRaw, kindOf as rawKindOf, toRaw } from './raw-path.ts'

/** How much of a workspace's git a sandbox gets, and how. */
export interface GitMounts {
  readonly place: GitPlace
  /** To be laid over the workspace, parents first. */
  readonly mounts: readonly BindMount[]
  /** Folders that are written through these mounts only: nothing else may bind them with write access. */
  readonly folders: readonly string[]
  /** What is not there for the sandbox, or only to be read, and why. */
  readonly notes: readonly string[]
  /** Empty files and folders that were made so that something can be bound over them. */
  readonly made: readonly string[]
}

/** Repositories inside a workspace that are bound one by one; of more than these the surplus is only watched. */
const MAX_NESTED = 64

/**
 * What git reads or runs that a repository names, so that a sandbox must not write it. An empty one means the same to
 * git as none, so a missing one is made: nothing can be bound over what is not there.
 */
const GUARDED = [
  { name: 'hooks', kind: 'folder' },
  { name: 'config', kind: 'file' },
  { name: 'config.worktree', kind: 'file' },
  { name: 'info/attributes', kind: 'file' },
] as const

/** Parts with repositories or entries of their own: to be read only, if they are there. */
const READ_ONLY_PARTS = ['modules', 'worktrees', 'objects/info/alternates'] as const

/**
 * The mounts by which a sandbox works with the git of its workspace, and yet writes nothing that makes git on the host
 * run a program: the folder is bound over itself, so that it cannot be moved away, and what git obeys is read-only over
 * it. The sandbox commits, branches, stashes; it does not change settings, submodules or worktrees.
 */
export function gitMounts(workspace: BindMount, maker: Maker = realMaker): GitMounts {
  const place = readGitPlace(workspace.source)
  const mounts: BindMount[] = []
  const folders: string[] = []
  const notes: string[] = []
  const made: string[] = []
  const bind = (source: string, readOnly: boolean) => {
    const isInside = source.startsWith(`${workspace.source}/`)
    const target = isInside ? workspace.target + source.slice(workspace.source.length) : source
    mounts.push({ source, target, readOnly })
  }
  const guard = (folder: string) => {
    folders.push(folder)
    const problem = oddPart(folder) ?? makeMissing(folder, maker, made)
    bind(folder, problem !== undefined)
    if (problem !== undefined) {
      notes.push(`${folder} can only be read: ${problem}`)
      return
    }
    bind(join(folder, 'info'), false)
    for (const { name } of GUARDED) bind(join(folder, name), true)
    for (const name of READ_ONLY_PARTS) {
      if (kindOf(join(folder, name)) !== 'none') bind(join(folder, name), true)
    }
  }

  if (place.kind === 'plain') guard(place.folder)
  if (place.kind === 'worktree') {
    bind(join(workspace.source, '.git'), true)
    guard(place.common)
    // Only inside what can be written at all.
    if (notes.length === 0) bindEntry(place.entry, bind, maker, made)
  }
  if (place.kind === 'foreign') {
    notes.push(`the repository is not in the sandbox: ${place.reason}`)
    if (kindOf(join(workspace.source, '.git')) === 'file') {
      bind(join(workspace.source, '.git'), true)
    }
  }
  for (const path of nestedGit(toRaw(workspace.source)).gits.slice(0, MAX_NESTED).map(fromRaw)) {
    const kind = kindOf(path)
    if (kind === 'file' || kind === 'folder') bind(path, true)
  }
  return { place, mounts, folders, notes, made }
}

/** The worktree's own entry is writable inside the entries, which are not; where it leads is not. */
function bindEntry(
  entry: string,
  bind: (source: string, readOnly: boolean) => void,
  maker: Maker,
  made: string[],
): void {
  bind(entry, false)
  made.push(...makeOne('file', join(entry, 'config.worktree'), maker))
  for (const name of ['commondir', 'gitdir', 'config.worktree']) bind(join(entry, name), true)
  if (kindOf(join(entry, 'modules')) === 'folder') bind(join(entry, 'modules'), true)
}

/** Why a git folder is not to be trusted: a part of it is a link, or of another kind than git makes it. */
function oddPart(folder: string): string | undefined {
  const isOdd = (name: string, ...kinds: readonly string[]) =>
    !kinds.includes(kindOf(join(folder, name)))
  const odd =
    GUARDED.find(({ name, kind }) => isOdd(name, kind, 'none'))?.name ??
    READ_ONLY_PARTS.find((name) => isOdd(name, 'folder', 'file', 'none')) ??
    ['config'].find((name) => isOdd(name, 'file')) ??
    ['info', 'objects', 'objects/info'].find((name) => isOdd(name, 'folder', 'none'))
  if (odd !== undefined) return `${odd} is not what git makes`
  return isOdd('commondir', 'none') ? 'commondir leads git elsewhere' : undefined
}

/** Makes what nothing could be bound over otherwise. Answers why it could not. */
function makeMissing(folder: string, maker: Maker, made: string[]): string | undefined {
  try {
    made.push(...makeOne('folder', join(folder, 'info'), maker))
    for (const { name, kind } of GUARDED) made.push(...makeOne(kind, join(folder, name), maker))
    return undefined
  } catch (error) {
    return `what is missing cannot be made: ${(error as Error).message}`
  }
}

function makeOne(kind: keyof Maker, path: string, maker: Maker): string[] {
  if (kindOf(path) !== 'none') return []
  maker[kind](path)
  return [path]
}

/** Removes what was made to be bound over, if it is still empty. */
export function removeMade(made: readonly string[]): void {
  for (const path of made.toReversed()) {
    try {
      const stat = lstatSync(path)
      if (stat.isDirectory()) rmdirSync(path)
      else if (stat.isFile() && stat.size === 0) unlinkSync(path)
    } catch {
      // Somebody uses it by now, or removed it: it is theirs.
    }
  }
}

function kindOf(path: string): ReturnType<typeof rawKindOf> {
  return rawKindOf(toRaw(path))
}
