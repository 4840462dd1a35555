import { isAbsolute, join } from 'node:path'
import { EgressError, type Problem, problemsError } from '../errors.ts'
import { type HostPlaces, unsafeSource, unsafeTarget } from './mount-rules.ts'
import type { BindMount } from './mounts.ts'
import { isWithin, normalPath, realOf } from './paths.ts'
import type { MountSpec } from './spec.ts'

/** What a workflow's paths are judged by. */
export interface MountSite extends HostPlaces {
  /** The folder of the workflow file: relative paths start there. */
  readonly workflowDir: string
  /** The workspace as it is bound. */
  readonly workspace: BindMount
  /** Real paths of git folders that a sandbox writes through their guards only. */
  readonly gitFolders: readonly string[]
}

/**
 * The binds that a workflow asks for with `mounts:`. Sources are followed to what they really are; each entry that
 * would open the sandbox is refused, all at once.
 *
 * @throws {EgressError} SANDBOX_SPEC_UNSAFE
 */
export function checkMounts(specs: readonly MountSpec[], site: MountSite): readonly BindMount[] {
  const problems: Problem[] = []
  const mounts: BindMount[] = []
  for (const [index, spec] of specs.entries()) {
    const path = resolveSource(spec.source, site)
    const target = normalPath(spec.target)
    const reason =
      sourceReason(path, spec.readOnly, site) ??
      targetReason(spec.target, site) ??
      (mounts.some((mount) => mount.target === target)
        ? `its target ${target} is taken by an entry before it`
        : undefined)
    if (reason === undefined) {
      mounts.push({ source: realOf(path), target, readOnly: spec.readOnly })
    } else {
      problems.push(problemOf(`mounts[${index}]: ${spec.source}`, reason))
    }
  }
  if (problems.length > 0) throw problemsError(problems)
  return mounts
}

/**
 * The attachments of a workflow: bound read-only at their own real paths, and over the workspace's place inside if they
 * are part of it.
 *
 * @throws {EgressError} SANDBOX_SPEC_UNSAFE
 */
export function attachmentMounts(paths: readonly string[], site: MountSite): readonly BindMount[] {
  const problems: Problem[] = []
  const mounts = paths.flatMap((written, index): BindMount[] => {
    const path = resolveSource(written, site)
    const source = realOf(path)
    const reason =
      sourceReason(path, true, site) ?? unsafeTarget(source) ?? attachmentReason(source, site)
    if (reason !== undefined) {
      problems.push(problemOf(`attachments[${index}]: ${written}`, reason))
      return []
    }
    const { workspace } = site
    const inside = isWithin(workspace.source, source)
      ? [`${workspace.target}${source.slice(workspace.source.length)}`]
      : []
    return [...new Set([source, ...inside])].map((target) => ({ source, target, readOnly: true }))
  })
  if (problems.length > 0) throw problemsError(problems)
  return mounts
}

/**
 * Everything that a workflow has bound, judged at once.
 *
 * @throws {EgressError} SANDBOX_SPEC_UNSAFE with every entry that is refused
 */
export function operatorMounts(
  mounts: readonly MountSpec[],
  attachments: readonly string[],
  site: MountSite,
): { readonly mounts: readonly BindMount[]; readonly attachments: readonly BindMount[] } {
  const problems: Problem[] = []
  const gather = <T>(work: () => readonly T[]): readonly T[] => {
    try {
      return work()
    } catch (error) {
      if (!(error instanceof EgressError)) throw error
      problems.push(...error.problems)
      return []
    }
  }
  const found = {
    mounts: gather(() => checkMounts(mounts, site)),
    attachments: gather(() => attachmentMounts(attachments, site)),
  }
  if (problems.length > 0) throw problemsError(problems)
  return found
}

function problemOf(entry: string, reason: string): Problem {
  return { code: 'SANDBOX_SPEC_UNSAFE', message: `${entry} cannot be bound: ${reason}` }
}

/** A path as written: absolute, below the home with `~/`, or beside the workflow. */
function resolveSource(written: string, { home, workflowDir }: MountSite): string {
  if (written.startsWith('~/')) return normalPath(join(home, written.slice(2)))
  return normalPath(isAbsolute(written) ? written : join(workflowDir, written))
}

function sourceReason(path: string, readOnly: boolean, site: MountSite): string | undefined {
  const { workspace, gitFolders } = site
  const real = realOf(path)
  if (/\p{Cc}/u.test(path + real)) return 'its name has a control character'
  if (leadsOut(path, workspace.source)) return 'a symbolic link in the workspace leads out of it'
  const reason = unsafeSource(path, readOnly, site)
  if (reason !== undefined) return reason
  const isGit = [join(workspace.source, '.git'), ...gitFolders].some(
    (folder) => isWithin(folder, real) || isWithin(real, folder),
  )
  // Also that of a repository inside the workspace.
  return (isGit || real.split('/').includes('.git')) && !readOnly
    ? 'it would be a second way into the git folder of the workspace: bind it read-only'
    : undefined
}

/** Whether a path goes through a folder and ends elsewhere: a run before this one may have put the link there. */
function leadsOut(path: string, folder: string): boolean {
  const parts = path.split('/')
  const passes = parts.some((_, index) =>
    isWithin(folder, realOf(parts.slice(0, index + 1).join('/') || '/')),
  )
  return passes && !isWithin(folder, realOf(path))
}

/** Why nothing may be bound at a path of the sandbox beside its workspace and home; undefined if it may. */
export function targetReason(written: string, { workspace, home }: MountSite): string | undefined {
  const unsafe = unsafeTarget(written)
  if (unsafe !== undefined) return unsafe
  const target = normalPath(written)
  if (isWithin(target, workspace.target)) return `its target ${target} would lie over the workspace`
  if (isWithin(join(workspace.target, '.git'), target)) return 'its target is git metadata'
  return isWithin(target, home) ? `its target ${target} would lie over the home folder` : undefined
}

function attachmentReason(source: string, { workspace }: MountSite): string | undefined {
  return source === workspace.source ? 'it is the workspace itself' : undefined
}
