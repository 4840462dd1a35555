import type { EventData } from '../events/event.ts'
import { type GitSnapshot, putAside } from './git-guard.ts'
import { removeMade } from './git-mounts.ts'

/** What has to be looked after when the container of a run is gone, by the run itself or by the reaper. */
export interface WorkspaceGuard {
  /** How git saw the folders that a sandbox can write to. */
  readonly snapshots: readonly GitSnapshot[]
  /** Empty files and folders that were made for its mounts. */
  readonly made: readonly string[]
}

/**
 * Puts aside what the sandbox left in its workspace and makes git on the host run or read something else, and removes
 * what was made for the mounts. Answers what there is to tell; undefined if nothing changed.
 */
export function settleGuard(
  guard: WorkspaceGuard,
  runId: string,
): EventData<'sandbox_git_metadata_changed'> | undefined {
  const results = guard.snapshots.map((snapshot) => putAside(snapshot, runId))
  removeMade(guard.made)
  const moved = results.flatMap((one) => [...one.moved])
  const failed = results.flatMap((one) => [...one.failed])
  return moved.length + failed.length > 0 ? { moved, failed } : undefined
}

/**
 * A guard that sees a workspace as it was before the earliest of the runs that work in it: what one of them planted is
 * no part of what another found.
 */
export function beforeOthers(
  guard: WorkspaceGuard,
  others: readonly WorkspaceGuard[],
): WorkspaceGuard {
  const earlier = others.flatMap(({ snapshots }) => snapshots)
  return {
    ...guard,
    snapshots: guard.snapshots.map(
      (own) => earlier.find(({ workspace }) => workspace === own.workspace) ?? own,
    ),
  }
}
