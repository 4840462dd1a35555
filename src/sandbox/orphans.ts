import type { Driver } from './driver.ts'
import { readGuard } from './guard-record.ts'
import type { ProcessIdentity, SandboxHost } from './host.ts'
import { containerName, ownerOf, RUN_LABEL } from './labels.ts'
import { judgeProcess } from './process-identity.ts'
import { failureRecord } from './failure.ts'
import { EgressError } from '../errors.ts'
import type { EventData } from '../events/event.ts'
import { listActiveRuns, settleRun, takeGuard } from './run-archive.ts'
import type { RunRecord } from './run-record.ts'
import { removeScratch } from './scratch.ts'
import { settleGuard } from './workspace-guard.ts'

/** What one run left for git. */
export type GitLeftover = { readonly run: string } & EventData<'sandbox_git_metadata_changed'>

/** What may be left of containers when their engine has crashed. */
export interface EngineRemains {
  /** True if a process of a container is there, also if the engine does not answer. */
  hasProcess(container: string): boolean
  /**
   * Removes volumes that carry a label, that no container has, and whose labels are judged so. Answers those that are
   * still there. @throws {EgressError} SANDBOX_ENGINE_UNREACHABLE
   */
  removeVolumes(
    label: string,
    isOrphan: (labels: Readonly<Record<string, string>>) => boolean,
  ): Promise<readonly string[]>
}

/** A driver, and what it knows of crashes. */
type ReapedEngine = Driver & Partial<EngineRemains>

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
 * @param ownRun the run that asks: neither its record nor its container need be looked at
 */
export async function reapOrphans(
  host: SandboxHost,
  drivers: readonly ReapedEngine[],
  ownRun?: string,
): Promise<Reaped> {
  const containers: string[] = []
  const leftBehind: string[] = []
  const unreachable: string[] = []
  const own = ownRun === undefined ? undefined : containerName(ownRun)
  const isOrphan = (labels: Readonly<Record<string, string>>) =>
    isGone(ownerOf(labels), host.identity)
  // A run that finds nobody dead does not ask for it.
  const looksForVolumes = ownRun === undefined || listOrphans(host, ownRun).length > 0
  for (const driver of drivers) {
    try {
      const found = await driver.list(RUN_LABEL, own)
      const orphans = found.filter(({ labels }) => isOrphan(labels)).map(({ id }) => id)
      const left = await driver.remove(orphans, REMOVE_TIMEOUT_MS)
      leftBehind.push(...left)
      containers.push(...orphans.filter((id) => !left.includes(id)))
      if (!looksForVolumes) continue
      leftBehind.push(...((await driver.removeVolumes?.(RUN_LABEL, isOrphan)) ?? []))
    } catch (error) {
      unreachable.push(error instanceof Error ? error.message : String(error))
    }
  }
  const { runs, gitMetadata, working } = settleOrphans(host, drivers, ownRun)
  leftBehind.push(...working.filter((id) => !leftBehind.includes(id)))
  return { containers, runs, leftBehind, gitMetadata, unreachable }
}

/** The runs that left something behind, or whose record says that they run, and that nobody drives. */
function listOrphans(host: SandboxHost, ownRun: string | undefined): RunRecord[] {
  return listActiveRuns(host, ownRun).filter(
    ({ status, scratch, owner }) =>
      (status === 'running' || scratch !== null) && isGone(owner, host.identity),
  )
}

/**
 * Says in the records of runs that nobody drives any more how they stand, and removes their scratch folders. A run whose
 * container works on, since its engine is dead, stays as it is: what it will yet leave for git has to be found.
 */
function settleOrphans(
  host: SandboxHost,
  drivers: readonly ReapedEngine[],
  ownRun: string | undefined,
): Pick<Reaped, 'runs' | 'gitMetadata'> & { readonly working: readonly string[] } {
  const gitMetadata: GitLeftover[] = []
  const runs: string[] = []
  const working: string[] = []
  for (const { id, status, scratch, container } of listOrphans(host, ownRun)) {
    if (container !== null && drivers.some((one) => one.hasProcess?.(container))) {
      working.push(container)
      continue
    }
    if (scratch !== null) removeScratch(scratch)
    const changed = settleTaken(host, id)
    if (changed) gitMetadata.push({ run: id, ...changed })
    const error = new EgressError('RUN_ORPHANED', 'the process that drove the run is gone')
    settleRun(host, id, {
      scratch: null,
      container: null,
      ...(status === 'running' && failureRecord(error)),
    })
    if (status === 'running') runs.push(id)
  }
  return { runs, gitMetadata, working }
}

/** Settles the guard of a run. One that cannot be read keeps nobody from settling the others. */
function settleTaken(
  host: SandboxHost,
  id: string,
): EventData<'sandbox_git_metadata_changed'> | undefined {
  const guard = takeGuard(host, id)
  if (guard === undefined) return undefined
  try {
    return settleGuard(readGuard(guard), id)
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    return { moved: [], failed: [{ path: 'its workspace', reason }] }
  }
}

function isGone(owner: ProcessIdentity | undefined, own: ProcessIdentity): boolean {
  return owner !== undefined && judgeProcess(owner, own) === 'gone'
}
