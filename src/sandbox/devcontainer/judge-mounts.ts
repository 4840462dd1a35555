import { lstatSync } from 'node:fs'
import path from 'node:path'
import { EgressError } from '../../errors.ts'
import type { BindMount } from '../mounts.ts'
import { checkMounts, type MountSite, targetReason } from '../operator-mounts.ts'
import { isWithin, normalPath, realOf } from '../paths.ts'
import type { MountEntry } from './mount-entry.ts'

/** What a repository has mounted. */
export interface RepositoryMounts {
  readonly binds: readonly BindMount[]
  /** Volumes that go with the container, whatever they are named. */
  readonly volumes: readonly { readonly target: string }[]
  /** File systems in memory. */
  readonly tmpfs: readonly string[]
}

/**
 * Judges the mounts of a devcontainer.json: a bind is of something in the workspace, a volume lasts as long as the
 * container.
 *
 * @param refuse reports an entry that is not taken
 */
export function judgeMounts(
  entries: readonly MountEntry[],
  site: MountSite,
  refuse: (index: number, reason: string) => void,
): RepositoryMounts {
  const binds: BindMount[] = []
  const volumes: { target: string }[] = []
  const tmpfs: string[] = []
  const taken = new Set<string>()
  for (const [index, entry] of entries.entries()) {
    const { type, source, readOnly } = entry
    const target = normalPath(entry.target)
    const reason = taken.has(target)
      ? `its target ${target} is taken by an entry before it`
      : (targetReason(entry.target, site) ??
        linkReason(target, site) ??
        (type === 'bind' ? bindReason(entry, site) : emptyReason(entry)) ??
        programReason(target))
    if (reason !== undefined) {
      refuse(index, reason)
      continue
    }
    taken.add(target)
    if (type === 'bind') binds.push({ source: realOf(source), target, readOnly })
    else if (type === 'volume') volumes.push({ target })
    else tmpfs.push(target)
  }
  return { binds, volumes, tmpfs }
}

/** Folders of an image's programs and their settings. */
const PROGRAM_FOLDERS = ['/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32', '/etc'].concat(
  ['/usr/bin', '/usr/sbin', '/usr/lib', '/usr/lib32', '/usr/lib64', '/usr/libexec'],
  ['/usr/local/bin', '/usr/local/sbin', '/usr/local/lib'],
)
/** Folders and files in a home that agents and the programs they start obey. */
const OBEYED = new Set(
  ['.claude', '.claude.json', '.iterion', '.codex', '.gemini', '.kimi', '.grok', '.pi'].concat(
    ['.ssh', '.gnupg', '.aws', '.docker', '.kube', '.gitconfig', '.netrc', '.npmrc'],
    ['.bashrc', '.bash_profile', '.profile', '.zshrc', '.zshenv'],
  ),
)

/** Why a repository may have nothing at a path inside, whatever it is: programs there are the image's, and the agent's. */
export function programReason(target: string): string | undefined {
  if (PROGRAM_FOLDERS.some((folder) => isWithin(folder, target) || isWithin(target, folder))) {
    return `its target ${target} would lie over programs of the image`
  }
  const obeyed = target.split('/').find((part) => OBEYED.has(part))
  return obeyed === undefined ? undefined : `programs do what stands in ${obeyed}`
}

/** A link of the workspace would lead the engine to another place inside than the one that was judged. */
function linkReason(target: string, { workspace }: MountSite): string | undefined {
  if (!isWithin(workspace.target, target)) return undefined
  let outside = workspace.source
  for (const part of target.slice(workspace.target.length).split('/')) {
    outside = path.join(outside, part)
    if (isLink(outside)) return `its target ${target} goes through a link`
  }
  return undefined
}

function isLink(file: string): boolean {
  try {
    return lstatSync(file).isSymbolicLink()
  } catch {
    return false
  }
}

function emptyReason({ type, readOnly }: MountEntry): string | undefined {
  return readOnly
    ? `a ${type} is empty when a run starts, so read-only it would stay so`
    : undefined
}

function bindReason({ source, target, readOnly }: MountEntry, site: MountSite): string | undefined {
  if (!source.startsWith('/')) return `its source ${JSON.stringify(source)} is not an absolute path`
  if (!isWithin(site.workspace.source, realOf(source))) {
    return `its source ${JSON.stringify(source)} is outside of the workspace`
  }
  try {
    checkMounts([{ source, target, readOnly }], site)
    return undefined
  } catch (error) {
    if (!(error instanceof EgressError)) throw error
    return error.message.replace(/^mounts\[0\]: /, '')
  }
}
