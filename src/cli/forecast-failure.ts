import { EgressError } from '../errors.ts'
import { Cancelled } from '../sandbox/failure.ts'
import { EXIT, type ExitCode } from './exit-codes.ts'
import type { Io } from './io.ts'
import { renderError, renderJsonError, toEgressError } from './render.ts'

/** Tells why `plan` or `doctor` has no answer: 2 for a command line that cannot be understood, else 1. */
export function tellFailure(io: Io, error: unknown, isJson: boolean): ExitCode {
  const failure =
    error instanceof Cancelled
      ? new EgressError('RUN_CANCELLED', error.message)
      : toEgressError(error)
  if (isJson) io.stdout(renderJsonError(failure))
  else io.stderr(renderError(failure))
  return failure.code === 'USAGE' ? EXIT.usage : EXIT.no
}
