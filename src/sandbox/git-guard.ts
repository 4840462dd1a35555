import { dirname, join } from 'node:path'
import { dangersOf, nestedPrint } from './git-dangers.ts'
import { readGitPlace } from './git-place.ts'
import { nestedGit } from './nested-git.ts'
import { isWithin } from './paths.ts'
import { fromRaw, kindOf, type RawPath, realRaw, renameRaw, toRaw } from './raw-path.ts'

/** What git would obey in a workspace, before a sandbox had it. Plain data, so that it can be kept with the run. */
export interface GitSnapshot {
  readonly workspace: string
  /** Git folders that a sandbox can write to. */
  readonly folders: readonly string[]
  /** By path, one character a byte: differs when what is there differs. */
  readonly prints: Readonly<Record<RawPath, string>>
}

/** What was put aside, and what could not be. */
export interface PutAside {
  readonly moved: readonly { readonly path: string; readonly to: string }[]
  readonly failed: readonly { readonly path: string; readonly reason: string }[]
  /** To go on from: what was put aside is not put aside again. */
  readonly snapshot: GitSnapshot
}

/** Looks at a workspace, by its real path, before a run and after what its mounts need was made. */
export function snapshotGit(workspace: string): GitSnapshot {
  const place = readGitPlace(workspace)
  const own = place.kind === 'plain' ? [place.folder] : []
  const folders = place.kind === 'worktree' ? [place.common] : own
  return { workspace, folders, prints: printsOf(workspace, folders) }
}

/**
 * Puts aside, under another name, what appeared or changed since a snapshot and makes git run a program, or read or
 * write elsewhere: what no mount could cover because it was not there. Nothing is deleted and no link is followed. May
 * be called again at any time, also between the steps of a run.
 */
export function putAside(snapshot: GitSnapshot, runId: string): PutAside {
  const { workspace, folders } = snapshot
  const prints = { ...snapshot.prints }
  const moved: { path: string; to: string }[] = []
  const failed: { path: string; reason: string }[] = []
  for (const [path, print] of Object.entries(printsOf(workspace, folders))) {
    if (prints[path] === print || kindOf(path) === 'none') continue
    const to = freeName(`${path}.sandboxed-${runId}`)
    try {
      // Through a link that stayed, this would be a file of somebody else.
      if (realRaw(dirname(path)) !== dirname(path)) continue
      renameRaw(path, to)
      prints[to] = print
      moved.push({ path: fromRaw(path), to: fromRaw(to) })
    } catch (error) {
      failed.push({ path: fromRaw(path), reason: (error as Error).message })
    }
  }
  return { moved, failed, snapshot: { ...snapshot, prints } }
}

function printsOf(workspace: string, folders: readonly string[]): Record<RawPath, string> {
  const prints: Record<RawPath, string> = {}
  const root = toRaw(workspace)
  const own = join(root, '.git')
  const raw = folders.map(toRaw)
  for (const folder of raw) {
    // A folder deeper inside the workspace can be moved away with what is read-only in it.
    const isGuarded = folder === own || folder === root || !isWithin(root, folder)
    for (const { path, print } of dangersOf(folder, { isGuarded, isBare: folder === root })) {
      prints[path] = print
    }
  }
  const { gits, bares } = nestedGit(root)
  for (const path of [own, ...gits]) {
    if (raw.includes(path) && kindOf(path) === 'folder') continue
    const print = nestedPrint(path, raw)
    if (print !== undefined) prints[path] = print
  }
  for (const bare of bares.filter((path) => !raw.includes(path))) {
    for (const { path, print } of dangersOf(bare, { isBare: true })) prints[path] = print
  }
  return prints
}

function freeName(path: RawPath): RawPath {
  let name = path
  for (let count = 2; kindOf(name) !== 'none'; count += 1) name = `${path}-${count}`
  return name
}
