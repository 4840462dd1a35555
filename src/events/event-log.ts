import { closeSync, constants, fstatSync, openSync } from 'node:fs'
import { pino } from 'pino'
import { EgressError } from '../errors.ts'
import { BlockFolder } from './block-folder.ts'
import type { EgressEvent } from './event.ts'

/** How often folded blocks are written, in milliseconds. */
const FOLD_INTERVAL_MS = 10_000
/** What may wait to be written, in bytes, before records are lost. */
const MAX_PENDING_BYTES = 4 * 1024 * 1024
/** How long `close` waits for the file, in milliseconds. */
const CLOSE_TIMEOUT_MS = 2_000

/** A log of events as JSON lines. Writing never blocks: what the file cannot take in time is counted as lost. */
export interface EventLog {
  /** Records an event: gives it a number and a time. */
  write(event: EgressEvent): void
  /** Writes what is still folded or waiting, and closes the file. Later events are dropped. */
  close(): Promise<void>
}

interface EventLogOptions {
  /** The id of the run that the events belong to. Default: null. */
  readonly runId?: string | null
  /** Milliseconds since 1970. Default: `Date.now`. */
  readonly now?: () => number
  /** How often folded blocks are written, in milliseconds. Default: 10,000. */
  readonly foldIntervalMs?: number
}

/**
 * Opens an event log. A file is appended to, made with mode 0600, and never reached through a symbolic link; `-` is
 * standard output.
 *
 * @throws {EgressError} EVENTS_FAILED when the file cannot be opened
 */
export function openEventLog(path: string, options: EventLogOptions = {}): EventLog {
  const { runId = null, now = Date.now, foldIntervalMs = FOLD_INTERVAL_MS } = options
  const descriptor = path === '-' ? 1 : openForAppend(path)
  const sink = pino.destination({ dest: descriptor, sync: false, maxLength: MAX_PENDING_BYTES })
  let dropped = false
  sink.on('drop', () => (dropped = true))
  // A write that failed (disk full, reader gone) is tried again with the next record; what does not fit is counted.
  sink.on('error', () => undefined)
  let seq = 0
  let lost: { count: number; from_ts: string; to_ts: string } | undefined
  let closed: Promise<void> | undefined

  const tryWrite = (event: EgressEvent, ts: string): boolean => {
    const { type, data } = event
    dropped = false
    sink.write(`${JSON.stringify({ v: 1, seq: seq + 1, ts, run_id: runId, type, data })}\n`)
    if (!dropped) seq++
    return !dropped
  }
  const record = (event: EgressEvent) => {
    const ts = new Date(now()).toISOString()
    recordLoss()
    if (lost === undefined && tryWrite(event, ts)) return
    lost = { count: (lost?.count ?? 0) + 1, from_ts: lost?.from_ts ?? ts, to_ts: ts }
  }
  const recordLoss = () => {
    if (lost && tryWrite({ type: 'events_lost', data: lost }, new Date(now()).toISOString()))
      lost = undefined
  }
  sink.on('drain', recordLoss)
  const folder = new BlockFolder(record, now)
  const timer = setInterval(() => folder.flush(), foldIntervalMs).unref()

  return {
    write(event) {
      if (closed) return
      if (event.type === 'network_blocked') folder.add(event.data, event.quiet === true)
      else record(event)
    },
    close() {
      closed ??= finish()
      return closed
    },
  }

  async function finish(): Promise<void> {
    clearInterval(timer)
    folder.flush()
    recordLoss()
    await new Promise<void>((resolve) => {
      const timeout = setTimeout(resolve, CLOSE_TIMEOUT_MS)
      const done = () => {
        clearTimeout(timeout)
        resolve()
      }
      sink.once('close', done)
      if (descriptor === 1) sink.flush(done)
      else sink.end()
    })
  }
}

function openForAppend(path: string): number {
  const { O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_WRONLY } = constants
  try {
    const descriptor = openSync(
      path,
      O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK,
      0o600,
    )
    const status = fstatSync(descriptor)
    if (status.isFile() || status.isFIFO() || status.isCharacterDevice()) return descriptor
    closeSync(descriptor)
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new EgressError('EVENTS_FAILED', `the event log cannot be opened: ${reason}`, {
      cause: error,
    })
  }
  throw new EgressError(
    'EVENTS_FAILED',
    `the event log cannot be opened: ${path} is neither a file nor a pipe`,
  )
}
