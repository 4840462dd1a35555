import type { Driver } from './driver.ts'
import { readGuard } from './guard-record.ts'
import type { ProcessIdentity, SandboxHost } from './host.ts'
import { containerName, ownerOf, RUN_LABEL } from './labels.ts'
import { judgeProcess } from './process-identity.ts'
import { failureRecord } from './failure.ts'
import { EgressError } from '../errors.ts'
import type { EventData } from '../events/event.ts'
import { listActiveRuns, settleRun, takeGuard } from './run-archive.ts'
import { removeScratch } from './scratch.ts'
import { settleGuard } from './workspace-guard.ts'

/** What one run left for git. */
export type GitLeftover = { readonly run: string } & EventData<'sandbox_git_metadata_changed'>

/** What a reaper did. */
export interface Reaped {
  /** Containers that were removed. */
  readonly containers: readonly string[]
  /** Runs whose record said that they run, and nobody drives them: now `failed_resumable`. */
  readonly runs: readonly string[]
  /** What could not be removed. */
  readonly leftBehind: readonly string[]
  /** What runs left for git in their workspaces, which is put aside, with the run that left it. */
  readonly gitMetadata: readonly GitLeftover[]
  /** What engines said that did not answer: nobody looked at their containers. */
  readonly unreachable: readonly string[]
}

/** How long the removal of orphans may take, in milliseconds. */
const REMOVE_TIMEOUT_MS = 20_000

/**
 * Removes what runs left behind whose process is gone: containers with their anonymous volumes, scratch folders. Judged
 * is only what was started under this boot of the kernel and in this pid namespace; the rest may belong to somebody who
 * lives, and stays.
 *
 * @param ownRun the run that asks, whose container need not be looked at
 */
export async function reapOrphans(
  host: SandboxHost,
  drivers: readonly Driver[],
  ownRun?: string,
): Promise<Reaped> {
  const containers: string[] = []
  const leftBehind: string[] = []
  const unreachable: string[] = []
  const own = ownRun === undefined ? undefined : containerName(ownRun)
  for (const driver of drivers) {
    try {
      const found = await driver.list(RUN_LABEL, own)
      const orphans = found
        .filter(({ labels }) => isGone(ownerOf(labels), host.identity))
        .map(({ id }) => id)
      const left = await driver.remove(orphans, REMOVE_TIMEOUT_MS)
      leftBehind.push(...left)
      containers.push(...orphans.filter((id) => !left.includes(id)))
    } catch (error) {
      unreachable.push(error instanceof Error ? error.message : String(error))
    }
  }
  const { runs, gitMetadata } = settleOrphans(host)
  return { containers, runs, leftBehind, gitMetadata, unreachable }
}

/** Says in the records of runs that nobody drives any more how they stand, and removes their scratch folders. */
function settleOrphans(host: SandboxHost): Pick<Reaped, 'runs' | 'gitMetadata'> {
  const gitMetadata: GitLeftover[] = []
  const orphans = listActiveRuns(host).filter(
    ({ status, scratch, owner }) =>
      (status === 'running' || scratch !== null) && isGone(owner, host.identity),
  )
  for (const { id, status, scratch } of orphans) {
    if (scratch !== null) removeScratch(scratch)
    const guard = takeGuard(host, id)
    const changed = guard === undefined ? undefined : settleGuard(readGuard(guard), id)
    if (changed) gitMetadata.push({ run: id, ...changed })
    const error = new EgressError('RUN_ORPHANED', 'the process that drove the run is gone')
    settleRun(host, id, {
      scratch: null,
      container: null,
      ...(status === 'running' && failureRecord(error)),
    })
  }
  const runs = orphans.filter(({ status }) => status === 'running').map(({ id }) => id)
  return { runs, gitMetadata }
}

function isGone(owner: ProcessIdentity | undefined, own: ProcessIdentity): boolean {
  return owner !== undefined && judgeProcess(owner, own) === 'gone'
}
