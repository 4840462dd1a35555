import { compilePolicy } from '../../src/policy/compile.ts'
import { DEFAULT_PORTS } from '../../src/policy/parse.ts'
import type { Mode, Policy } from '../../src/policy/policy.ts'
import type { PortRange } from '../../src/policy/ports.ts'
import { parseRule, type Rule, type RuleSource } from '../../src/policy/rule.ts'
import { parseTarget, type Target } from '../../src/policy/target.ts'

/** A time that is between the `until` dates of the tests: the start of 2027. */
export const NOW = Date.UTC(2027, 0, 1)
export const BEFORE = '2026-06-01T00:00:00Z'
export const AFTER = '2027-06-01T00:00:00Z'

export type Written = string | RuleSource

/** One rule as a file would have it. */
export function ruleOf(
  written: Written,
  line = 1,
  ports: readonly PortRange[] = DEFAULT_PORTS,
): Rule {
  const source = typeof written === 'string' ? { host: written } : written
  const rule = parseRule(source, ports, { source: 'policy.yaml', line, column: 5 })
  if ('length' in rule) throw new Error(rule.map(({ message }) => message).join('; '))
  return rule
}

/** A policy of these rules, one a line. */
export function policyOf(rules: readonly Written[], mode: Mode = 'allowlist'): Policy {
  return compilePolicy({ mode, rules: rules.map((rule, i) => ruleOf(rule, i + 1)) })
}

/** A target that is well formed. */
export function targetOf(text: string): Target {
  const target = parseTarget(text)
  if ('bad' in target) throw new Error(`${text}: ${target.bad}`)
  return target
}
