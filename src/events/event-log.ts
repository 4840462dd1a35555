import { closeSync, constants, fstatSync, openSync, writeSync } from 'node:fs'
import { pino } from 'pino'
import { EgressError } from '../errors.ts'
import { BlockFolder } from './block-folder.ts'
import type { EgressEvent } from './event.ts'

/** How often folded blocks are written, in milliseconds. */
const FOLD_INTERVAL_MS = 10_000
/** How long records are gathered for one write, in milliseconds: a write for each was a tenth of what a tunnel cost. */
const GATHER_MS = 25
/** What may wait to be written, in bytes, before records are lost. */
const MAX_PENDING_BYTES = 4 * 1024 * 1024
/** How long `close` waits for the file, in milliseconds. */
const CLOSE_TIMEOUT_MS = 2_000

/**
 * A log of events as JSON lines. Writing never blocks: what the file cannot take in time is counted as lost. The first
 * record after a pause is written at once, those that come together go together.
 */
export interface EventLog {
  /** Records an event: gives it a number and a time. */
  write(event: EgressEvent): void
  /** Writes what is still folded or waiting, and closes the file. Later events are dropped. */
  close(): Promise<void>
}

interface EventLogOptions {
  /** The id of the run that the events belong to. Default: null. */
  readonly runId?: string | null
  /** The number of the last record of a log that is gone on with. Default: 0. */
  readonly lastSeq?: number
  /** Milliseconds since 1970. Default: `Date.now`. */
  readonly now?: () => number
  /** How often folded blocks are written, in milliseconds. Default: 10,000. */
  readonly foldIntervalMs?: number
  /** What may wait to be written, in bytes, before records are lost. Default: 4 MiB. */
  readonly maxPendingBytes?: number
  /** How long `close` waits for the file, in milliseconds. Default: 2,000. */
  readonly closeTimeoutMs?: number
}

/**
 * Opens an event log. A file is appended to, made with mode 0600, and never reached through a symbolic link; `-` is
 * standard output.
 *
 * @throws {EgressError} EVENTS_FAILED when the file cannot be opened
 */
export function openEventLog(path: string, options: EventLogOptions = {}): EventLog {
  const { runId = null, now = Date.now, foldIntervalMs = FOLD_INTERVAL_MS } = options
  const { maxPendingBytes = MAX_PENDING_BYTES, closeTimeoutMs = CLOSE_TIMEOUT_MS } = options
  const descriptor = path === '-' ? openStandardOutput() : openForAppend(path)
  let isAbandoned = false
  let isStuck = false
  const sink = pino.destination({
    dest: descriptor,
    sync: false,
    // A pipe that nobody reads is tried again, until the log is closed.
    retryEAGAIN: () => {
      isStuck = true
      return !isAbandoned
    },
  })
  let gathered = ''
  let gathering: NodeJS.Timeout | undefined
  let waiting = 0
  sink.on('write', (bytes: number) => {
    waiting -= bytes
    isStuck = false
    // Only with much room again: what is lost meanwhile belongs to the same record.
    if (waiting <= maxPendingBytes / 2) recordLoss()
  })
  // A write that failed (disk full, reader gone) is tried again with the next record; what does not fit is counted.
  // pino's own listener would drop everything for good once a reader is gone.
  sink.removeAllListeners('error')
  sink.on('error', () => {
    isStuck = true
    if (closed) sink.destroy()
  })
  // At exit pino writes what waits, over and over until it can: a full disk would hold the process for ever.
  const flushSync = sink.flushSync.bind(sink)
  sink.flushSync = () => {
    isAbandoned = true
    try {
      if (isStuck) return
      flushSync()
      writeSync(descriptor, gathered)
      gathered = ''
    } catch {
      // Nobody is left to be told.
    }
  }
  const run = JSON.stringify(runId)
  const stamp = createStamp()
  let seq = options.lastSeq ?? 0
  let lost: { count: number; from_ts: string; to_ts: string } | undefined
  let closed: Promise<void> | undefined

  const tryWrite = (event: EgressEvent, ts: string): boolean => {
    const { type, data } = event
    const line = `{"v":1,"seq":${seq + 1},"ts":"${ts}","run_id":${run},"type":"${type}","data":${JSON.stringify(data)}}\n`
    const bytes = Buffer.byteLength(line)
    if (waiting + bytes > maxPendingBytes) return false
    seq++
    waiting += bytes
    gathered += line
    if (gathering === undefined || closed) writeGathered()
    return true
  }
  const writeGathered = () => {
    gathering = undefined
    if (gathered === '') return
    sink.write(gathered)
    gathered = ''
    if (!closed) gathering = setTimeout(writeGathered, GATHER_MS)
  }
  const record = (event: EgressEvent) => {
    const ts = stamp(now())
    if (lost === undefined && tryWrite(event, ts)) return
    // Nothing was added that would make it try again.
    sink.write('')
    lost = { count: (lost?.count ?? 0) + 1, from_ts: lost?.from_ts ?? ts, to_ts: ts }
  }
  const recordLoss = () => {
    if (lost && tryWrite({ type: 'events_lost', data: lost }, stamp(now()))) lost = undefined
  }
  const folder = new BlockFolder(record, now)
  const timer = setInterval(() => folder.flush(), foldIntervalMs).unref()

  return {
    write(event) {
      if (closed) return
      if (event.type === 'network_blocked') folder.add(event.data, event.quiet === true)
      else record(event)
    },
    close() {
      closed ??= Promise.resolve().then(finish)
      return closed
    },
  }

  async function finish(): Promise<void> {
    clearInterval(timer)
    folder.flush()
    clearTimeout(gathering)
    writeGathered()
    await new Promise<void>((resolve) => {
      const timeout = setTimeout(() => {
        isAbandoned = true
        resolve()
      }, closeTimeoutMs)
      sink.once('close', () => {
        clearTimeout(timeout)
        resolve()
      })
      if (lost === undefined) {
        sink.end()
        return
      }
      // What was lost is told once there is room again.
      sink.once('drain', () => sink.end())
      sink.write('')
    })
  }
}

/** Answers times, in milliseconds since 1970, as ISO 8601 has them. Most of a text is that of the second before. */
function createStamp(): (nowMs: number) => string {
  let second = NaN
  let upToSecond = ''
  return (nowMs) => {
    const now = Math.floor(nowMs / 1_000)
    if (now !== second) {
      second = now
      upToSecond = new Date(now * 1_000).toISOString().slice(0, -4)
    }
    return `${upToSecond}${String(Math.floor(nowMs) - now * 1_000).padStart(3, '0')}Z`
  }
}

/**
 * Standard output, opened once more, so that a reader who stops holds nobody up: the descriptor itself may be shared
 * with programs that want it to block. Where that is not possible (a socket, another user's pipe), it is the descriptor.
 */
function openStandardOutput(): number {
  const { O_APPEND, O_NOCTTY, O_NONBLOCK, O_WRONLY } = constants
  try {
    return openSync('/proc/self/fd/1', O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY)
  } catch {
    return 1
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
