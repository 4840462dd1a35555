import { EgressError } from '../errors.ts'
import type { EgressEvent } from '../events/event.ts'

/** A step of the set-up with a bound of its own. */
export interface Phase {
  readonly name: 'pull' | 'build' | 'create' | 'door' | 'post_create'
  /** The variable that sets its bound. */
  readonly knob: string
  /** In milliseconds. */
  readonly boundMs: number
}

/** How long the work of an expired phase may take to end what it started, in milliseconds. */
const SETTLE_MS = 5_000

/**
 * Runs a phase within its bound, and within no other. Half way through it says so; at the end it tells the work to end,
 * waits a moment for it, and fails.
 *
 * @throws {EgressError} SANDBOX_SETUP_TIMEOUT at the end of the bound; what `work` throws; the reason of `signal`
 */
export async function runPhase<T>(
  phase: Phase,
  emit: (event: EgressEvent) => void,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  signal.throwIfAborted()
  const expiry = new AbortController()
  const { name, knob, boundMs } = phase
  const data = { phase: name, knob, bound_ms: boundMs }
  const halfWay = setTimeout(() => emit({ type: 'sandbox_setup_slow', data }), boundMs / 2)
  const bound = setTimeout(() => expiry.abort(), boundMs)
  let settle: NodeJS.Timeout | undefined
  const expired = new Promise<undefined>((resolve) => {
    expiry.signal.addEventListener('abort', () => {
      settle = setTimeout(() => resolve(undefined), SETTLE_MS)
    })
  })
  const either = AbortSignal.any([signal, expiry.signal])
  try {
    const done = work(either)
    const result = await Promise.race([done.then((value) => ({ value })), expired])
    if (result !== undefined && !expiry.signal.aborted) return result.value
  } catch (error) {
    signal.throwIfAborted()
    if (!expiry.signal.aborted) throw error
  } finally {
    clearTimeout(halfWay)
    clearTimeout(bound)
    clearTimeout(settle)
  }
  emit({ type: 'sandbox_setup_timeout', data })
  throw new EgressError(
    'SANDBOX_SETUP_TIMEOUT',
    `the phase ${name} took longer than ${boundMs / 1000} s; ${knob} sets its bound`,
  )
}
