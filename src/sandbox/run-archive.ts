import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
} from 'node:fs'
import path from 'node:path'
import { EgressError } from '../errors.ts'
import type { ProcessIdentity, SandboxHost } from './host.ts'
import { judgeProcess } from './process-identity.ts'
import { identitySchema, type RunRecord, runRecordSchema } from './run-record.ts'
import {
  ACTIVE_FOLDER,
  createHandle,
  GUARD_FILE,
  guarded,
  type RunHandle,
  storeError,
  type StoreHost,
  takeAttempt,
  writeRecord,
} from './run-store.ts'

/** The form of every id; what a caller gives is held to it before it is part of a path. */
const RUN_ID = /^\d{8}T\d{6}-[\da-f]{8}$/

const { O_NOFOLLOW, O_RDONLY, O_RDWR } = constants

/**
 * Takes up a run again. Two callers cannot both have it.
 *
 * @throws {EgressError} RUN_UNKNOWN, RUN_NOT_RESUMABLE, RUN_STORE_FAILED
 */
export function reopenRun(host: StoreHost, id: string): RunHandle {
  assertResumable(readRun(host, id), host.identity)
  return guarded(`the run ${id} cannot be taken up`, () => {
    const folder = path.join(host.iterionHome, 'runs', id)
    const attempt = nextAttempt(host, folder, readRun(host, id))
    // Somebody who took it up a moment ago has said so by now.
    const record = readRun(host, id)
    assertResumable(record, host.identity)
    const descriptor = openSync(path.join(folder, 'run.json'), O_RDWR | O_NOFOLLOW)
    const lastSeq = mendEvents(path.join(folder, 'events.jsonl'))
    const next = { ...record, attempt, owner: host.identity, status: 'running' as const }
    return createHandle(host, folder, descriptor, next, lastSeq)
  })
}

function assertResumable(record: RunRecord, own: ProcessIdentity): void {
  if (record.status === 'failed_resumable') return
  if (record.status === 'running' && !isDriven(record, own)) return
  throw new EgressError(
    'RUN_NOT_RESUMABLE',
    `the run ${record.id} is ${record.status}; only a run that is failed_resumable can be resumed`,
  )
}

/** Takes the next attempt. One that somebody took who ended before they could say so is passed over. */
function nextAttempt(host: StoreHost, folder: string, record: RunRecord): number {
  for (let attempt = record.attempt + 1; ; attempt++) {
    if (takeAttempt(host, folder, attempt)) return attempt
    if (!isAbandoned(path.join(folder, `attempt-${attempt}`), host.identity)) {
      throw new EgressError(
        'RUN_NOT_RESUMABLE',
        `the run ${record.id} is being resumed by somebody else`,
      )
    }
  }
}

function isAbandoned(file: string, own: ProcessIdentity): boolean {
  try {
    const owner = identitySchema.parse(JSON.parse(readNoFollow(file)))
    return judgeProcess(owner, own) === 'gone'
  } catch {
    return false
  }
}

/** True if the process that drives a run may still live; where that cannot be judged, it may. */
export function isDriven(record: RunRecord, own: ProcessIdentity): boolean {
  return judgeProcess(record.owner, own) !== 'gone'
}

/** @throws {EgressError} RUN_UNKNOWN, RUN_STORE_FAILED */
export function readRun({ iterionHome }: Pick<SandboxHost, 'iterionHome'>, id: string): RunRecord {
  const unknown = () => new EgressError('RUN_UNKNOWN', `there is no run ${JSON.stringify(id)}`)
  if (!RUN_ID.test(id)) throw unknown()
  let text: string
  try {
    text = readNoFollow(path.join(iterionHome, 'runs', id, 'run.json'))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') throw unknown()
    throw storeError(`the run ${id} cannot be read`, error)
  }
  return guarded(`the record of run ${id} cannot be understood`, () =>
    runRecordSchema.parse(JSON.parse(text)),
  )
}

/** All runs, the latest first. Folders that are no run are passed over. */
export function listRuns(host: Pick<SandboxHost, 'iterionHome'>): RunRecord[] {
  return readAll(host, path.join(host.iterionHome, 'runs'))
}

/**
 * The runs that are driven, or that left something behind. What costs time does not grow with the runs there were.
 *
 * @param except a run that is left out: its record is not even read
 */
export function listActiveRuns(
  host: Pick<SandboxHost, 'iterionHome'>,
  except?: string,
): RunRecord[] {
  return readAll(host, path.join(host.iterionHome, 'runs', ACTIVE_FOLDER), except)
}

function readAll(
  host: Pick<SandboxHost, 'iterionHome'>,
  folder: string,
  except?: string,
): RunRecord[] {
  let names: string[]
  try {
    names = readdirSync(folder)
  } catch {
    return []
  }
  return names
    .filter((name) => name !== except && RUN_ID.test(name))
    .flatMap((name) => {
      try {
        return [readRun(host, name)]
      } catch {
        // Made a moment ago, or its disk was full: it has no record yet.
        return []
      }
    })
    .toSorted((a, b) => b.created_at.localeCompare(a.created_at))
}

/** The events of a run as they are on disk. */
export function readEvents({ iterionHome }: Pick<SandboxHost, 'iterionHome'>, id: string): string {
  try {
    return readNoFollow(path.join(iterionHome, 'runs', id, 'events.jsonl'))
  } catch {
    return ''
  }
}

/** Writes a record again that nobody drives any more, and takes its mark away. */
export function settleRun(host: StoreHost, id: string, change: Partial<RunRecord>): void {
  guarded(`the run ${id} cannot be settled`, () => {
    const runs = path.join(host.iterionHome, 'runs')
    const record = readRun(host, id)
    const descriptor = openSync(path.join(runs, id, 'run.json'), O_RDWR | O_NOFOLLOW)
    const updated_at = new Date(host.now()).toISOString()
    writeRecord(descriptor, { ...record, ...change, updated_at })
    closeSync(descriptor)
    rmSync(path.join(runs, ACTIVE_FOLDER, id), { force: true })
  })
}

/** What a run that nobody drives left for the reaper to do; undefined if there is nothing. */
export function takeGuard(
  { iterionHome }: Pick<SandboxHost, 'iterionHome'>,
  id: string,
): string | undefined {
  const file = path.join(iterionHome, 'runs', id, GUARD_FILE)
  try {
    const text = readNoFollow(file)
    rmSync(file)
    return text
  } catch {
    return undefined
  }
}

/** Cuts off a last line that was not written whole. Answers the number of the last one that was. */
function mendEvents(file: string): number {
  let descriptor: number
  try {
    descriptor = openSync(file, O_RDWR | O_NOFOLLOW)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 0
    throw error
  }
  try {
    const bytes = readFileSync(descriptor)
    const end = bytes.lastIndexOf('\n') + 1
    if (end < bytes.length) ftruncateSync(descriptor, end)
    const start = bytes.lastIndexOf('\n', end - 2) + 1
    if (end === 0) return 0
    const last = JSON.parse(bytes.toString('utf8', start, end)) as { seq?: unknown }
    return typeof last.seq === 'number' ? last.seq : 0
  } finally {
    closeSync(descriptor)
  }
}

function readNoFollow(file: string): string {
  const descriptor = openSync(file, O_RDONLY | O_NOFOLLOW)
  try {
    const bytes = Buffer.alloc(fstatSync(descriptor).size)
    const read = readSync(descriptor, bytes, 0, bytes.length, 0)
    return bytes.toString('utf8', 0, read)
  } finally {
    closeSync(descriptor)
  }
}
