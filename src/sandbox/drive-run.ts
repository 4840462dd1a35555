import { constants as osConstants } from 'node:os'
import { EgressError } from '../errors.ts'
import type { EgressEvent } from '../events/event.ts'
import { Cancelled, failureRecord } from './failure.ts'
import { orLost } from './lost.ts'
import type { NodeProcess } from './node-process.ts'
import type { RunControl } from './run-control.ts'
import type { RunRecord } from './run-record.ts'
import type { RunHandle } from './run-store.ts'
import type { NodeSpec } from './spec.ts'
import type { Teardown } from './teardown.ts'

/** What answers for a failure that is not a command's own, as with `docker run`. */
export const OWN_FAILURE = 125

/** Where the nodes of a run are started. */
export interface NodePlace {
  /** Starts the command of a node under its backend. */
  start(node: NodeSpec): NodeProcess
  /** Rejects when the place is gone; undefined: it cannot go. */
  readonly lost?: Promise<never>
}

/** What a run is driven with. */
export interface RunTools {
  readonly handle: RunHandle
  readonly emit: (event: EgressEvent) => void
  readonly control: RunControl
  readonly teardown: Teardown
}

/** How a run ended. */
export interface RunResult {
  /** The exit code of the last command, 128+N for a signal, 125 for a failure of our own. */
  readonly exitCode: number
  readonly record: RunRecord
  /** Undefined if the run finished. */
  readonly failure: Error | undefined
  /** What could not be removed. */
  readonly leftBehind: readonly string[]
}

/**
 * Drives a run from its checkpoint to its end: makes the place, runs the nodes one after another, and takes everything
 * down again, whatever happens. The record says at every moment how far it came.
 */
export async function driveRun(
  nodes: readonly NodeSpec[],
  tools: RunTools,
  makePlace: () => Promise<NodePlace>,
): Promise<RunResult> {
  const { handle, emit, control, teardown } = tools
  let exitCode = 0
  let failure: Error | undefined
  try {
    control.signal.throwIfAborted()
    const place = await makePlace()
    place.lost?.catch(() => undefined)
    exitCode = await runNodes(nodes, tools, place)
    if (exitCode !== 0) throw commandFailed(handle.record, exitCode)
  } catch (error) {
    failure = error instanceof Error ? error : new Error(String(error))
    if (failure instanceof Cancelled) exitCode = cancelledCode(failure)
    else if (exitCode === 0) exitCode = OWN_FAILURE
  }
  const leftBehind = await teardown.run()
  const outcome =
    failure === undefined
      ? { status: 'finished' as const, failure_code: null, error: null, retry_class: null }
      : keepResumable(failureRecord(failure), handle.record)
  emit({
    type: 'sandbox_stopped',
    data: { status: outcome.status, left_behind: [...leftBehind] },
  })
  const keepsScratch = leftBehind.length > 0
  handle.update({
    ...outcome,
    exit_code: exitCode,
    ...(!keepsScratch && { scratch: null, container: null }),
  })
  return { exitCode, record: handle.record, failure, leftBehind }
}

/** What a later attempt is refused for does not undo what an earlier one has done: the operator may mend it. */
function keepResumable(
  outcome: ReturnType<typeof failureRecord>,
  { attempt }: RunRecord,
): ReturnType<typeof failureRecord> {
  return outcome.status === 'failed' && attempt > 1
    ? { ...outcome, status: 'failed_resumable' }
    : outcome
}

/** Runs the nodes that the checkpoint does not count as done. Answers the first exit code that is not 0. */
async function runNodes(
  nodes: readonly NodeSpec[],
  tools: RunTools,
  place: NodePlace,
): Promise<number> {
  const { handle, control } = tools
  const stopped = new Promise<never>((_, reject) => {
    const stop = () => reject(control.signal.reason as Error)
    control.signal.addEventListener('abort', stop, { once: true })
    if (control.signal.aborted) stop()
  })
  stopped.catch(() => undefined)
  const isDone = new Set(handle.record.checkpoint.done.map(({ node }) => node))
  for (const [index, node] of nodes.entries()) {
    if (isDone.has(node.id)) continue
    const { done } = handle.record.checkpoint
    handle.update({ checkpoint: { done, next: node.id } })
    const code = await runNode(node, tools, place, stopped)
    if (code !== 0) return code
    const next = nodes[index + 1]?.id ?? null
    handle.update({ checkpoint: { done: [...done, { node: node.id, exit_code: code }], next } })
  }
  return 0
}

/** Runs a node, by its fallbacks in turn as long as it fails. Answers the exit code of the last one that ran. */
async function runNode(
  node: NodeSpec,
  { emit, control }: RunTools,
  place: NodePlace,
  stopped: Promise<never>,
): Promise<number> {
  const backends = [node.backend, ...node.fallback]
  for (const [index, backend] of backends.entries()) {
    emit({ type: 'node_started', data: { node: node.id, backend } })
    const running = place.start({ ...node, backend })
    control.enter(running)
    const code = await Promise.race([orLost(running.done, place.lost), stopped])
    emit({ type: 'node_finished', data: { node: node.id, exit_code: code } })
    control.enter(undefined, code)
    const next = backends[index + 1]
    if (code === 0 || next === undefined) return code
    emit({
      type: 'node_fallback',
      data: { node: node.id, from: backend, to: next, exit_code: code },
    })
  }
  throw new TypeError('a node without a backend')
}

/** What the command made of the signal, if that was a failure; else the signal itself. */
function cancelledCode({ signal, commandCode }: Cancelled): number {
  return commandCode || 128 + osConstants.signals[signal]
}

function commandFailed({ checkpoint }: RunRecord, code: number): EgressError {
  return new EgressError(
    'NODE_FAILED',
    `the command of node ${checkpoint.next ?? ''} ended with ${code}`,
  )
}
