import { EgressError, type Problem } from '../../src/errors.ts'

/** The problems that an action throws; the error itself, as one, where it has none. Fails if nothing is thrown. */
export function problemsOf(action: () => unknown): readonly Problem[] {
  try {
    action()
  } catch (error) {
    if (!(error instanceof EgressError)) throw error
    if (error.problems.length > 0) return error.problems
    return [{ code: error.code, message: error.message, ...(error.at && { at: error.at }) }]
  }
  throw new Error('nothing was thrown')
}

/** A problem as `line:column CODE message`. */
export function inShort({ at, code, message }: Problem): string {
  return `${at ? `${at.line}:${at.column} ` : ''}${code} ${message}`
}
