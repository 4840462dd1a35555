import { randomBytes } from 'node:crypto'
import {
  accessSync,
  chmodSync,
  closeSync,
  constants,
  existsSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import path from 'node:path'
import { EgressError } from '../errors.ts'
import type { SandboxHost } from './host.ts'
import type { RunRecord } from './run-record.ts'

/** A run that this process drives, and its record. */
export interface RunHandle {
  readonly record: RunRecord
  readonly eventsFile: string
  /** The number of the last event that an earlier attempt wrote; 0 for a first attempt. */
  readonly lastSeq: number
  /** Writes what the reaper needs if this process cannot look after the workspace itself. */
  writeGuard(text: string): void
  /** Says that the workspace was looked after. */
  removeGuard(): void
  /** Changes the record, on disk when it returns. */
  update(change: Partial<RunRecord>): void
  /** Ends the driving. A run that left something behind stays marked for the reaper. */
  close(): void
}

/** The part of a host that the store needs. */
export type StoreHost = Pick<SandboxHost, 'iterionHome' | 'now' | 'identity'>

/** The folder with one empty file for each run that is driven, or that left something behind. */
export const ACTIVE_FOLDER = '.active'
/** What is to be done about the workspace when the container is gone. */
export const GUARD_FILE = 'guard.json'

/** What an error text in a record may have, in characters. */
const MAX_ERROR_LENGTH = 2_000
/** A record is at least so long on disk, in bytes, and one page where it fits. */
const RECORD_BYTES = 4_096

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_RDWR } = constants

/**
 * Records a new run: a folder of mode 0700 with `run.json` and `events.jsonl` of mode 0600. The files are opened here,
 * once, before there is a container, and never through a symbolic link.
 *
 * @throws {EgressError} RUN_STORE_FAILED
 */
export function createRun(
  host: StoreHost,
  first: Omit<RunRecord, 'v' | 'id' | 'created_at' | 'updated_at' | 'attempt' | 'owner'>,
): RunHandle {
  return guarded('the run cannot be recorded', () => {
    const now = new Date(host.now()).toISOString()
    const id = `${now.replace(/[-:]/g, '').slice(0, 15)}-${randomBytes(4).toString('hex')}`
    const folder = path.join(openRunsFolder(host), id)
    mkdirSync(folder, { mode: 0o700 })
    const record: RunRecord = {
      v: 1,
      id,
      created_at: now,
      updated_at: now,
      attempt: 1,
      owner: host.identity,
      ...first,
    }
    takeAttempt(host, folder, 1)
    const file = path.join(folder, 'run.json')
    const descriptor = openSync(file, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
    return createHandle(host, folder, descriptor, record, 0)
  })
}

/** The handle of a run whose files are open. */
export function createHandle(
  host: StoreHost,
  folder: string,
  descriptor: number,
  first: RunRecord,
  lastSeq: number,
): RunHandle {
  let record = first
  let isOpen = true
  const guard = path.join(folder, GUARD_FILE)
  const marker = path.join(path.dirname(folder), ACTIVE_FOLDER, first.id)
  // Marked first: a record that says "running" is never without its mark.
  makeFolder(path.dirname(marker))
  writeFileSync(marker, '', { mode: 0o600 })
  writeRecord(descriptor, record)
  return {
    get record() {
      return record
    },
    eventsFile: path.join(folder, 'events.jsonl'),
    lastSeq,
    update(change) {
      const updated_at = new Date(host.now()).toISOString()
      const changed = { ...record, ...change, updated_at }
      record = { ...changed, error: changed.error?.slice(0, MAX_ERROR_LENGTH) ?? null }
      writeRecord(descriptor, record)
    },
    writeGuard(text) {
      // Whole or not at all: another run may be reading it.
      const draft = `${guard}.draft`
      rmSync(draft, { force: true })
      writeFileSync(draft, text, { flag: 'wx', mode: 0o600 })
      renameSync(draft, guard)
    },
    removeGuard() {
      rmSync(guard, { force: true })
    },
    close() {
      if (!isOpen) return
      isOpen = false
      closeSync(descriptor)
      if (record.status !== 'running' && record.scratch === null) rmSync(marker, { force: true })
    },
  }
}

/** The guards of other runs that are driven, or were killed: how their workspaces were before them. */
export function otherGuards(
  { iterionHome }: Pick<SandboxHost, 'iterionHome'>,
  ownId: string,
): string[] {
  const runs = path.join(iterionHome, 'runs')
  return readdirSync(path.join(runs, ACTIVE_FOLDER))
    .filter((id) => id !== ownId)
    .flatMap((id) => {
      try {
        return [readFileSync(path.join(runs, id, GUARD_FILE), 'utf8')]
      } catch {
        // It has none yet, or none any more.
        return []
      }
    })
}

/**
 * Writes the record over the last one in one call and never shorter, so that whoever reads, and whatever ends this
 * process, finds a whole one.
 */
export function writeRecord(descriptor: number, record: RunRecord): void {
  const text = Buffer.from(`${JSON.stringify(record, null, 2)}\n`)
  const length = Math.max(fstatSync(descriptor).size, RECORD_BYTES, text.length)
  const bytes = Buffer.concat([text, Buffer.alloc(length - text.length, ' ')])
  writeSync(descriptor, bytes, 0, bytes.length, 0)
}

/** `$ITERION_HOME/runs`, made if need be; refused if it is not a folder. */
function openRunsFolder({ iterionHome }: Pick<SandboxHost, 'iterionHome'>): string {
  const runs = path.join(iterionHome, 'runs')
  makeFolder(runs)
  const status = lstatSync(runs)
  if (!status.isDirectory()) throw new Error(`${runs} is not a folder`)
  if ((status.mode & 0o077) !== 0) chmodSync(runs, 0o700)
  return runs
}

/** Also a link to nothing is there: nothing can be made in its place. */
function isThere(file: string): boolean {
  return lstatSync(file, { throwIfNoEntry: false }) !== undefined
}

/**
 * Where runs are recorded. Makes nothing. Their short-lived files have a place too.
 *
 * @throws {EgressError} RUN_STORE_FAILED if nothing could be written there
 */
export function checkStore({
  iterionHome,
  tempRoot,
}: Pick<SandboxHost, 'iterionHome' | 'tempRoot'>): string {
  const runs = path.join(iterionHome, 'runs')
  return guarded(`nothing can be recorded in ${runs}`, () => {
    let folder = runs
    while (!isThere(folder) && folder !== '/') folder = path.dirname(folder)
    const stat = folder === runs ? lstatSync(folder) : statSync(folder)
    if (!stat.isDirectory()) throw new Error(`${folder} is not a folder`)
    accessSync(folder, constants.W_OK | constants.X_OK)
    if (!statSync(tempRoot).isDirectory()) throw new Error(`${tempRoot} is not a folder`)
    accessSync(tempRoot, constants.W_OK | constants.X_OK)
    return runs
  })
}

/** Makes a folder and those above it. (Node's own way of that never ends where the kernel makes none, as in /proc.) */
function makeFolder(folder: string): void {
  if (existsSync(folder)) return
  makeFolder(path.dirname(folder))
  try {
    mkdirSync(folder, { mode: 0o700 })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

/** Takes an attempt of a run for this process. False if somebody has it. */
export function takeAttempt({ identity }: StoreHost, folder: string, attempt: number): boolean {
  try {
    const file = path.join(folder, `attempt-${attempt}`)
    writeFileSync(file, JSON.stringify(identity), { flag: 'wx', mode: 0o600 })
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

/** Runs `work`, and makes what the file system says a failure of the store. */
export function guarded<T>(what: string, work: () => T): T {
  try {
    return work()
  } catch (error) {
    if (error instanceof EgressError) throw error
    throw storeError(what, error)
  }
}

/** A failure of the store. */
export function storeError(what: string, error: unknown): EgressError {
  const why = error instanceof Error ? error.message : String(error)
  return new EgressError('RUN_STORE_FAILED', `${what}: ${why}`, { cause: error })
}
