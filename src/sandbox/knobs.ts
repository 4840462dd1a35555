import { escapeControls } from '../errors.ts'
import { formatGoDuration, parseGoDuration } from './duration.ts'
import type { Phase } from './phase.ts'

/** The variable that bounds a phase. */
interface KnobRow {
  readonly name: Phase['name']
  /** The variable; it holds a Go duration. */
  readonly knob: string
  /** In milliseconds. */
  readonly defaultMs: number
}

const MINUTE_MS = 60_000
const MAX_MS = 24 * 60 * MINUTE_MS

/** Every bound of the set-up, in the order of the phases. */
export const KNOBS: readonly KnobRow[] = [
  { name: 'pull', knob: 'ITERION_SANDBOX_PULL_TIMEOUT', defaultMs: 10 * MINUTE_MS },
  { name: 'build', knob: 'ITERION_SANDBOX_BUILD_TIMEOUT', defaultMs: 30 * MINUTE_MS },
  { name: 'create', knob: 'ITERION_SANDBOX_CREATE_TIMEOUT', defaultMs: 2 * MINUTE_MS },
  { name: 'door', knob: 'ITERION_SANDBOX_DOOR_TIMEOUT', defaultMs: 30_000 },
  {
    name: 'post_create',
    knob: 'ITERION_SANDBOX_POST_CREATE_TIMEOUT',
    defaultMs: 30 * MINUTE_MS,
  },
]

/** The phases with their bounds: whole milliseconds, more than 0, 24 hours at the most. */
export type Knobs = Readonly<Record<KnobRow['name'], Phase>>

/**
 * Reads the bounds from an environment. A phase always has one: a value that is no duration above 0 and up to 24 hours
 * gives one line of warning, and the default holds.
 */
export function readKnobs(env: Readonly<Partial<Record<string, string>>>): {
  readonly knobs: Knobs
  readonly warnings: readonly string[]
} {
  const warnings: string[] = []
  const boundOf = ({ knob, defaultMs }: KnobRow): number => {
    const text = env[knob]
    if (text === undefined) return defaultMs
    const ms = parseGoDuration(text)
    if (ms !== undefined && ms > 0 && ms <= MAX_MS) return Math.ceil(ms)
    warnings.push(
      `${knob}=${shown(text)} is no duration above 0 and up to 24h, such as 90s or 1h30m; ` +
        `the default ${formatGoDuration(defaultMs)} applies`,
    )
    return defaultMs
  }
  const phases = KNOBS.map((row): [string, Phase] => [
    row.name,
    { name: row.name, knob: row.knob, boundMs: boundOf(row) },
  ])
  return { knobs: Object.fromEntries(phases) as Record<KnobRow['name'], Phase>, warnings }
}

/** A value in quotes, on one line, of a length that a line can hold. */
function shown(value: string): string {
  return escapeControls(JSON.stringify(value.length > 64 ? `${value.slice(0, 64)}…` : value))
}
