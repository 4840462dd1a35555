import { EgressError, escapeControls, formatProblem } from '../errors.ts'

/** Problems that are printed for people before it says how many more there are. */
const MAX_SHOWN = 50

/** A failure for people: every problem of a file with its place, or the one sentence there is. */
export function renderError(error: EgressError): string {
  const { problems } = error
  if (problems.length === 0) return `error: ${shownLines(error.message)} [${error.code}]\n`
  const shown = problems.slice(0, MAX_SHOWN).map(formatProblem).join('\n')
  const more = problems.length > MAX_SHOWN ? `\nand ${problems.length - MAX_SHOWN} more` : ''
  const count = problems.length === 1 ? '1 problem' : `${problems.length} problems`
  return `${shown}${more}\n${count}\n`
}

/**
 * Text of several lines that others may have had a hand in: controls are spelt as escapes, and every line but the first is
 * indented, so that none of it passes for a line of ours.
 */
export function shownLines(text: string): string {
  return text.trimEnd().split('\n').map(escapeControls).join('\n    ')
}

/** A failure for programs: `{"error":{code,message,at}}`, with all problems of a file where there are several. */
export function renderJsonError(error: EgressError, more: Record<string, unknown> = {}): string {
  const { code, message, at = null, problems } = error
  const list = problems.length > 1 ? { problems } : {}
  return renderJson({ error: { code, message, at, ...list }, ...more })
}

/** A value for programs, on one line. */
export function renderJson(value: unknown): string {
  return `${JSON.stringify(value)}\n`
}

/** Rows with their columns lined up. */
export function renderTable(rows: readonly (readonly string[])[]): string {
  const widths: number[] = []
  for (const row of rows) {
    for (const [i, cell] of row.entries()) widths[i] = Math.max(widths[i] ?? 0, cell.length)
  }
  return rows
    .map(
      (row) =>
        row
          .map((cell, i) => cell.padEnd(widths[i] ?? 0))
          .join('  ')
          .trimEnd() + '\n',
    )
    .join('')
}

/** Turns whatever was thrown into a failure that can be shown. */
export function toEgressError(error: unknown): EgressError {
  if (error instanceof EgressError) return error
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error)
  return new EgressError('INTERNAL', message, { cause: error })
}
