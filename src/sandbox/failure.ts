import { EgressError, type ErrorCode } from '../errors.ts'
import type { RunRecord } from './run-record.ts'

/** How a failure stands in the record of its run. */
interface Outcome {
  readonly status: RunRecord['status']
  readonly retryClass: RunRecord['retry_class']
}

/** What ended a run that was asked to end. */
export class Cancelled extends Error {
  override readonly name = 'Cancelled'
  readonly signal: NodeJS.Signals
  /** How the command ended that got the signal; undefined if it did not end by itself. */
  readonly commandCode: number | undefined

  constructor(signal: NodeJS.Signals, commandCode?: number) {
    super(`ended by ${signal}`)
    this.signal = signal
    this.commandCode = commandCode
  }
}

const RESUMABLE: Outcome = { status: 'failed_resumable', retryClass: 'transient' }

/** Failures that another try may not meet. All others are refusals: the same question has the same answer. */
const OUTCOMES: Partial<Record<ErrorCode, Outcome>> = {
  SANDBOX_SETUP_TIMEOUT: RESUMABLE,
  SANDBOX_ENGINE_UNREACHABLE: RESUMABLE,
  SANDBOX_IMAGE_UNAVAILABLE: RESUMABLE,
  SANDBOX_SETUP_FAILED: RESUMABLE,
  SANDBOX_DOOR_FAILED: RESUMABLE,
  SANDBOX_LOST: RESUMABLE,
  RUN_ORPHANED: RESUMABLE,
  // Whether the command would do better a second time is for its author to know.
  NODE_FAILED: { status: 'failed_resumable', retryClass: null },
}

/** What is wrong, and where in a file. */
function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { at } = error instanceof EgressError ? error : { at: undefined }
  return at ? `${at.file}:${at.line}:${at.column}: ${error.message}` : error.message
}

/** The part of a record that tells a failure. The code is in the text too, for readers that have only that. */
export function failureRecord(
  error: unknown,
): Pick<RunRecord, 'status' | 'failure_code' | 'error' | 'retry_class'> {
  if (error instanceof Cancelled) {
    return {
      status: 'cancelled',
      failure_code: 'RUN_CANCELLED',
      error: `[RUN_CANCELLED] ${error.message}`,
      retry_class: null,
    }
  }
  const code = error instanceof EgressError ? error.code : 'INTERNAL'
  const message = messageOf(error)
  const { status, retryClass } = OUTCOMES[code] ?? {
    status: 'failed' as const,
    retryClass: 'deterministic' as const,
  }
  return {
    status,
    failure_code: code,
    error: `[${code}] ${message}`,
    retry_class: retryClass,
  }
}
