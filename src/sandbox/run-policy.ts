import { EgressError } from '../errors.ts'
import type { Policy } from '../policy/policy.ts'
import type { Catalog } from '../presets/catalog.ts'
import { composePolicy } from '../presets/compose.ts'
import { readPolicy } from '../presets/load-policy.ts'
import type { PolicyNetwork } from './network-default.ts'

/**
 * The policy of a network that has one.
 *
 * @throws {EgressError} all problems of joining it with its presets
 */
export function composeNetwork({ source, presets }: PolicyNetwork, catalog: Catalog): Policy {
  return composePolicy({ ...(source && { source }), presets }, catalog).policy
}

/**
 * The policy of a file beside a command line.
 *
 * @throws {EgressError} OPTION_INVALID for a policy that is open; all problems of the file
 */
export function loadRunPolicy(file: string, catalog: Catalog): Policy {
  const source = readPolicy(file, catalog)
  if (source.mode === 'open') {
    throw new EgressError(
      'OPTION_INVALID',
      `${file}: a policy of the mode open is for serve; leave it out to run with an open network`,
    )
  }
  return composePolicy({ source }, catalog).policy
}
