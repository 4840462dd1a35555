import { constants as osConstants } from 'node:os'
import { EgressError } from '../errors.ts'
import type { RunResult } from '../sandbox/drive-run.ts'
import { OWN_FAILURE } from '../sandbox/drive-run.ts'
import { Cancelled } from '../sandbox/failure.ts'
import { preflight } from '../sandbox/preflight.ts'
import { resumeRun, runWorkflow } from '../sandbox/run-workflow.ts'
import { checkScheduleRecord, writeScheduleRecord } from '../sandbox/schedule-record.ts'
import type { Io } from './io.ts'
import { renderError, renderJson, renderJsonError, shownLines, toEgressError } from './render.ts'
import {
  nameOf,
  readRunRequest,
  runOptions,
  type RunRequestOptions,
  withResolver,
} from './run-request.ts'

/** Options that `run` and `resume` share. */
interface CommonOptions {
  readonly env: readonly string[]
  readonly interactive?: boolean
  readonly tty?: boolean
  readonly scheduleRecord?: string
  readonly json?: boolean
}

interface RunCommandOptions extends CommonOptions, RunRequestOptions {
  readonly json?: boolean
}

interface ResumeCommandOptions extends CommonOptions {
  readonly acceptChanges?: boolean
}

/**
 * `run`: runs a workflow, or the one command behind `--`.
 *
 * @param command the words behind `--`; undefined if there is none
 */
export function runRun(
  io: Io,
  file: string | undefined,
  command: readonly string[] | undefined,
  options: RunCommandOptions,
): Promise<number> {
  return answering(io, options, async () => {
    const request = await readRunRequest(io, file, command, options)
    await preflight(request.host, request.source, request.options)
    return runWorkflow(request.host, request.source, request.options)
  })
}

/** `resume`: goes on with a run from its checkpoint. */
export function runResume(io: Io, id: string, options: ResumeCommandOptions): Promise<number> {
  return answering(io, options, async () => {
    const host = io.sandboxHost()
    const { readRun } = await import('../sandbox/run-archive.ts')
    const { flags, workspace } = readRun(host, id)
    const given = options.env.map(nameOf)
    const missing = flags.env.filter((name) => !given.includes(name))
    if (missing.length > 0) {
      throw new EgressError(
        'USAGE',
        `the run was started with ${missing.map((name) => `--env ${name}`).join(' ')}; values are not recorded, so give them again`,
      )
    }
    const next = { ...flags, env: given }
    return resumeRun(await withResolver(host, flags), id, {
      ...runOptions(io, host, next, options, workspace),
      acceptChanges: options.acceptChanges === true,
    })
  })
}

async function answering(
  io: Io,
  { json, scheduleRecord }: CommonOptions,
  work: () => Promise<RunResult>,
): Promise<number> {
  try {
    // A file that cannot take the outcome is known before anything starts.
    if (scheduleRecord !== undefined) checkScheduleRecord(scheduleRecord)
    const result = await work()
    const { failure, record, leftBehind } = result
    if (scheduleRecord !== undefined) writeScheduleRecord(scheduleRecord, record)
    if (leftBehind.length > 0) {
      io.stderr(
        `iterion-egress: left behind: ${shownLines(leftBehind.join(', '))}; reap removes it\n`,
      )
    }
    if (json === true) io.stderr(renderJson(record))
    else if (failure instanceof EgressError && failure.problems.length > 0)
      io.stderr(renderError(failure))
    else if (failure !== undefined) io.stderr(`iterion-egress: ${shownLines(record.error ?? '')}\n`)
    return result.exitCode
  } catch (error) {
    // Asked to end before there was a run.
    if (error instanceof Cancelled) return 128 + osConstants.signals[error.signal]
    const failure = toEgressError(error)
    if (json === true) io.stderr(renderJsonError(failure))
    else io.stderr(renderError(failure))
    return OWN_FAILURE
  }
}
