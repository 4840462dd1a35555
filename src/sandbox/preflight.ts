import { EgressError, escapeControls } from '../errors.ts'
import type { Check } from './doctor-check.ts'
import type { SandboxHost } from './host.ts'
import { readVariable } from './read-variable.ts'
import type { RunOptions, RunSource } from './run-plan.ts'

const VARIABLE = 'ITERION_SANDBOX_PREFLIGHT'
const ON = ['1', 'true', 'yes', 'on'] as const
const OFF = ['0', 'false', 'no', 'off'] as const

/**
 * Examines a run strictly before it starts, if `ITERION_SANDBOX_PREFLIGHT` asks for it. Warnings are told.
 *
 * @throws {EgressError} SANDBOX_PREFLIGHT_FAILED with every check that failed; OPTION_INVALID for another value
 */
export async function preflight(
  host: SandboxHost,
  source: RunSource,
  options: RunOptions,
): Promise<void> {
  const value = readVariable(VARIABLE, host.env[VARIABLE]?.toLowerCase(), [...ON, ...OFF])
  if (value === undefined || OFF.some((one) => one === value)) return
  const { examine } = await import('./doctor.ts')
  const checks = await examine(host, { source, options, isStrict: true, target: 'auto' })
  for (const check of checks) {
    if (check.status === 'warn') options.say(`preflight: warning: ${lineOf(check)}`)
  }
  const failed = checks.filter(({ status }) => status === 'fail')
  if (failed.length === 0) return
  throw new EgressError(
    'SANDBOX_PREFLIGHT_FAILED',
    failed.map((check) => `fail ${lineOf(check)}`).join('\n'),
  )
}

function lineOf({ name, detail, remedy }: Check): string {
  // A line each: a repository may have had a hand in it.
  return escapeControls(`${name}: ${detail}${remedy === undefined ? '' : `; remedy: ${remedy}`}`)
}
