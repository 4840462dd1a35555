import { escapeControls } from '../errors.ts'
import type { Check } from '../sandbox/doctor-check.ts'
import { examine } from '../sandbox/doctor.ts'
import { EXIT, type ExitCode } from './exit-codes.ts'
import { tellFailure } from './forecast-failure.ts'
import type { Io } from './io.ts'
import { renderJson, renderTable } from './render.ts'
import { readRunRequest, type RunRequestOptions } from './run-request.ts'

interface DoctorOptions extends RunRequestOptions {
  readonly strict?: boolean
  readonly target: 'auto' | 'local'
}

/** `doctor`: everything that a run needs, looked at before there is one. */
export async function runDoctor(
  io: Io,
  file: string | undefined,
  command: readonly string[] | undefined,
  options: DoctorOptions,
): Promise<ExitCode> {
  try {
    const hasRun = file !== undefined || command !== undefined
    const request = await readRunRequest(io, file, hasRun ? command : ['true'], options)
    const checks = await examine(request.host, {
      source: hasRun ? request.source : undefined,
      options: request.options,
      isStrict: options.strict === true,
      target: options.target,
    })
    const isWell = checks.every(({ status }) => status !== 'fail')
    io.stdout(options.json === true ? renderJson({ ok: isWell, checks }) : renderChecks(checks))
    return isWell ? EXIT.yes : EXIT.no
  } catch (error) {
    return tellFailure(io, error, options.json === true)
  }
}

/** A line for each check, with what to do in it. */
function renderChecks(checks: readonly Check[]): string {
  const count = (status: Check['status']) => checks.filter((one) => one.status === status).length
  return `${renderTable(checks.map(checkRow))}${count('pass')} passed, ${count('warn')} warnings, ${count('fail')} failed\n`
}

function checkRow({ status, name, detail, remedy }: Check): [string, string, string] {
  const advice = remedy === undefined ? '' : `; remedy: ${remedy}`
  return [status, name, escapeControls(`${detail}${advice}`)]
}
