import {
  accessSync,
  chmodSync,
  chownSync,
  constants,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { EgressError } from '../errors.ts'
import type { RunRecord } from './run-record.ts'

/**
 * Copies how a run ended into the record of the schedule that started it. What else is in that file stays.
 *
 * @throws {EgressError} FILE_UNREADABLE if the file is there and holds no JSON object, or cannot be written
 */
export function writeScheduleRecord(file: string, run: RunRecord): void {
  const before = readScheduleRecord(file)
  const after = {
    ...before,
    last_run_id: run.id,
    last_run_status: run.status,
    last_run_error_code: run.failure_code,
    last_run_at: run.updated_at,
  }
  const draft = `${file}.${run.id}.tmp`
  try {
    const owner = statSync(file, { throwIfNoEntry: false })
    writeFileSync(draft, `${JSON.stringify(after, null, 2)}\n`, { flag: 'wx', mode: 0o600 })
    // It stays the file of whoever reads it.
    if (owner) chmodSync(draft, owner.mode & 0o777)
    if (owner) chownSync(draft, owner.uid, owner.gid)
    renameSync(draft, file)
  } catch (error) {
    rmSync(draft, { force: true })
    throw scheduleError(file, error)
  }
}

/** Finds out before a run whether its outcome can be written. Throws as {@link writeScheduleRecord} does. */
export function checkScheduleRecord(file: string): void {
  readScheduleRecord(file)
  try {
    accessSync(path.dirname(file), constants.W_OK)
  } catch (error) {
    throw scheduleError(file, error)
  }
}

/** What a schedule record holds; empty if there is none yet. Throws as {@link writeScheduleRecord} does. */
export function readScheduleRecord(file: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(readFileSync(file, 'utf8'))
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { ...value }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {}
    throw scheduleError(file, error)
  }
  throw scheduleError(file, new Error('it holds no JSON object'))
}

function scheduleError(file: string, error: unknown): EgressError {
  const why = error instanceof Error ? error.message : String(error)
  return new EgressError('FILE_UNREADABLE', `the schedule record ${file}: ${why}`, {
    cause: error,
  })
}
