import { EgressError } from '../errors.ts'
import { DEFAULT_PORTS } from '../policy/parse.ts'
import { parseRule, type Rule } from '../policy/rule.ts'
import { type Catalog, createCatalog } from '../presets/catalog.ts'
import { composePolicy, type ComposedPolicy } from '../presets/compose.ts'
import { readPolicy } from '../presets/load-policy.ts'
import type { PolicyOptions } from './policy-flags.ts'

/** The catalog of presets that the options name. */
export function catalogOf(options: Pick<PolicyOptions, 'presetDir'>): Catalog {
  return createCatalog({ dirs: options.presetDir })
}

/** True if the options name any policy at all. */
export function namesPolicy(options: PolicyOptions): boolean {
  const { policy, preset, mode, rule } = options
  return policy !== undefined || preset.length > 0 || mode !== undefined || rule.length > 0
}

/**
 * The policy that the options name.
 *
 * @throws {EgressError} USAGE when they name none, or a rule is none; all that loading throws
 */
export function policyFrom(options: PolicyOptions): ComposedPolicy {
  if (!namesPolicy(options)) {
    throw new EgressError(
      'USAGE',
      'name a policy: --policy FILE, --preset NAME, --rule RULE or --mode MODE',
    )
  }
  return composeFrom(options, catalogOf(options), options.policy)
}

/** The policy of a file, or of none, together with what the other options add. */
export function composeFrom(
  options: PolicyOptions,
  catalog: Catalog,
  file: string | undefined,
): ComposedPolicy {
  const { preset, mode, rule } = options
  return composePolicy(
    {
      ...(file !== undefined && { source: readPolicy(file, catalog) }),
      presets: preset,
      ...(mode !== undefined && { mode }),
      rules: rule.map(ruleFromArgument),
    },
    catalog,
  )
}

function ruleFromArgument(text: string, index: number): Rule {
  const rule = parseRule({ host: text }, DEFAULT_PORTS, {
    source: '--rule',
    line: index + 1,
    column: 1,
  })
  if (!('length' in rule)) return rule
  const [fault] = rule
  const hint = fault?.correction === undefined ? '' : `; write instead: ${fault.correction}`
  throw new EgressError('USAGE', `--rule ${fault?.message ?? text}${hint}`)
}
