import { EgressError } from '../errors.ts'
import { driveRun, type RunResult, type RunTools } from './drive-run.ts'
import type { SandboxHost } from './host.ts'
import { makePlace } from './run-place.ts'
import { readPlan, type RunOptions, type RunPlan, type RunSource } from './run-plan.ts'
import type { RunHandle } from './run-store.ts'
import { Teardown } from './teardown.ts'

/** Failures behind which there is nobody to ask. */
const SILENT_ENGINE: ReadonlySet<string | null> = new Set([
  'SANDBOX_ENGINE_UNREACHABLE',
  'SANDBOX_SETUP_TIMEOUT',
])

/** How long a run works undisturbed before it looks for what others left behind, in milliseconds. */
const REAP_DELAY_MS = 2_000

/**
 * Runs a workflow from its first node.
 *
 * @throws {EgressError} what is wrong before there is a run: a workflow file, a variable, the run store. Everything
 * later is the failure of the result.
 */
export async function runWorkflow(
  host: SandboxHost,
  source: RunSource,
  options: RunOptions,
): Promise<RunResult> {
  const plan = await readPlan(host, source, options)
  const { createRun } = await import('./run-store.ts')
  const handle = createRun(host, {
    name: plan.workflow.name,
    status: 'running',
    failure_code: null,
    error: null,
    retry_class: null,
    workspace: options.workspace,
    scratch: null,
    container: null,
    seal: null,
    source,
    flags: options.flags,
    spec_digest: plan.digest,
    policy_digest: null,
    checkpoint: { done: [], next: plan.workflow.nodes[0]?.id ?? null },
    exit_code: null,
  })
  return drivePlan(host, plan, handle, options)
}

/**
 * Takes up a run where it stopped. Workflow and policy are read again.
 *
 * @throws {EgressError} SANDBOX_SPEC_CHANGED unless `acceptChanges`; RUN_UNKNOWN, RUN_NOT_RESUMABLE
 */
export async function resumeRun(
  host: SandboxHost,
  id: string,
  options: RunOptions & { readonly acceptChanges: boolean },
): Promise<RunResult> {
  const { readRun, reopenRun } = await import('./run-archive.ts')
  const before = readRun(host, id)
  const plan = await readPlan(host, before.source, options)
  const digest = (await plan.loadPolicy())?.digest ?? null
  const changed = [
    ...(plan.digest === before.spec_digest
      ? []
      : [plan.repository ? `the workflow or ${plan.repository.file}` : 'the workflow']),
    // A run that ended before it had read its policy has none to compare with.
    ...(before.policy_digest === null || digest === before.policy_digest
      ? []
      : [digest === null ? 'its policy, which is gone: the network would be open,' : 'its policy']),
  ]
  if (changed.length > 0 && !options.acceptChanges) {
    throw new EgressError(
      'SANDBOX_SPEC_CHANGED',
      `${changed.join(' and ')} changed since the run ${id} was started; --accept-changes goes on with what is there now`,
    )
  }
  const handle = reopenRun(host, id)
  const fresh = { failure_code: null, error: null, retry_class: null, seal: null }
  handle.update({ ...fresh, spec_digest: plan.digest })
  return drivePlan(host, plan, handle, options)
}

async function drivePlan(
  host: SandboxHost,
  plan: RunPlan,
  handle: RunHandle,
  options: RunOptions,
): Promise<RunResult> {
  const { openEventLog } = await import('../events/event-log.ts')
  const log = openEventLog(handle.eventsFile, {
    runId: handle.record.id,
    lastSeq: handle.lastSeq,
    now: host.now,
  })
  const tools: RunTools = {
    handle,
    emit: (event) => log.write(event),
    control: options.control,
    teardown: new Teardown(),
  }
  try {
    options.onRecorded?.(handle.record)
    if (handle.record.attempt > 1) await settleEarlierAttempt(host, tools)
    let reaping: Promise<void> | undefined
    const reap = () => (reaping ??= reapOthers(host, plan, options, handle.record.id))
    const timer = setTimeout(() => void reap(), REAP_DELAY_MS)
    const result = await driveRun(plan.workflow.nodes, tools, async () => {
      const place = await makePlace(host, plan, tools, options)
      // A short run does it while its own container goes.
      tools.teardown.add('others', () => void reap())
      return place
    })
    clearTimeout(timer)
    // An engine that did not answer the run does not answer the reaper.
    if (reaping !== undefined || !SILENT_ENGINE.has(result.record.failure_code)) await reap()
    return result
  } finally {
    await log.close()
    handle.close()
  }
}

/** An attempt that was killed could not look after the workspace: its sandbox may have left something there. */
async function settleEarlierAttempt(host: SandboxHost, { handle, emit }: RunTools): Promise<void> {
  const { takeGuard } = await import('./run-archive.ts')
  const text = takeGuard(host, handle.record.id)
  if (text === undefined) return
  const { readGuard } = await import('./guard-record.ts')
  const { settleGuard } = await import('./workspace-guard.ts')
  const changed = settleGuard(readGuard(text), handle.record.id)
  if (changed) emit({ type: 'sandbox_git_metadata_changed', data: changed })
}

/**
 * Removes what other runs left behind, while this one works: that is no reason for it to wait, nor to fail. An engine
 * that does not answer is met by the run itself, which says so.
 */
async function reapOthers(
  host: SandboxHost,
  { engine }: RunPlan,
  { say }: RunOptions,
  runId: string,
): Promise<void> {
  if (engine === undefined) return
  const { reapOrphans } = await import('./orphans.ts')
  const { containers, leftBehind, gitMetadata } = await reapOrphans(host, [engine.driver], runId)
  if (containers.length > 0) say(`removed what ${containers.length} ended runs left behind`)
  for (const { run, moved, failed } of gitMetadata) {
    const paths = [...moved.map(({ to }) => to), ...failed.map(({ path }) => path)]
    say(`warning: run ${run} left metadata for git: ${paths.join(', ')}`)
  }
  if (leftBehind.length > 0) say(`left behind by ended runs: ${leftBehind.join(', ')}`)
}
