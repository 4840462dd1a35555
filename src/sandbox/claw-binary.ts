import { EgressError } from '../errors.ts'
import { findOnPath, isProgram } from './drivers/find-runtime.ts'
import type { SandboxHost } from './host.ts'
import { unsafeSource } from './mount-rules.ts'
import type { BindMount } from './mounts.ts'
import { normalPath, realOf } from './paths.ts'

/** Where the `iterion` of this machine is in a sandbox. */
export const CLAW_TARGET = '/usr/local/bin/iterion'

/**
 * The `iterion` of this machine, for the runner of claw: `ITERION_BIN`, or the first on PATH. Undefined if there is none:
 * then it is the image's to have one.
 *
 * @throws {EgressError} OPTION_INVALID for an `ITERION_BIN` that is no program
 */
export function findIterion(host: SandboxHost): string | undefined {
  const named = host.env['ITERION_BIN']
  if (named === undefined || named === '') return findOnPath('iterion', host)
  if (named.startsWith('/') && isProgram(named)) return normalPath(named)
  throw new EgressError(
    'OPTION_INVALID',
    `ITERION_BIN=${JSON.stringify(named)}: that is not the absolute path of a program`,
  )
}

/**
 * The mount that brings the `iterion` of this machine into a sandbox, read-only.
 *
 * @throws {EgressError} OPTION_INVALID if it is where nothing of the host may be bound from
 */
export function clawMount(host: SandboxHost): BindMount | undefined {
  const program = findIterion(host)
  if (program === undefined) return undefined
  const { home, iterionHome, tempRoot } = host
  const reason = unsafeSource(program, true, { home, iterionHome, tempRoot })
  if (reason === undefined) return { source: realOf(program), target: CLAW_TARGET, readOnly: true }
  throw new EgressError(
    'OPTION_INVALID',
    `the iterion at ${program} cannot be bound: ${reason}; ITERION_BIN names another one`,
  )
}
