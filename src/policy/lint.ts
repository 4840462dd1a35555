import { formatProblem, type Problem } from '../errors.ts'
import { classifyIp, isThisHost } from './address-kind.ts'
import { cidrCovers, familyBits, lastOf } from './address.ts'
import { LiteralIndex } from './literal-index.ts'
import { patternCovers } from './overlap.ts'
import { spansRentedZone } from './width.ts'
import { formatPorts, portsCover } from './ports.ts'
import { formatOrigin, isExactAddressRule, isLive, type Rule } from './rule.ts'

/** What `lint` has to say about a rule that loads. */
export interface LintWarning {
  readonly kind: 'duplicate' | 'never-wins' | 'expired' | 'opens-nothing' | 'rented-zone'
  readonly rule: Rule
  readonly message: string
}

/** Finds the rules of a policy that do nothing, or more than their writer may think. `nowMs` is for `until`. */
export function lintRules(rules: readonly Rule[], nowMs: number): LintWarning[] {
  const warnings: LintWarning[] = []
  const later = new LiteralIndex()
  for (const rule of rules.toReversed()) {
    const by = findCovering(later, rule)
    if (!isLive(rule, nowMs)) {
      warnings.push({ kind: 'expired', rule, message: `${rule.text} ran out and matches no more` })
    } else if (by) {
      const same = by.pattern.text === rule.pattern.text && by.effect === rule.effect
      warnings.push({
        kind:
          same && formatPorts(by.ports) === formatPorts(rule.ports) ? 'duplicate' : 'never-wins',
        rule,
        message: `${rule.text} never wins: ${by.text} (${formatOrigin(by.origin)}) comes later and covers it`,
      })
    }
    if (opensNothing(rule)) {
      warnings.push({
        kind: 'opens-nothing',
        rule,
        message: `${rule.text} opens nothing: such an address opens by one address with its port alone, as 127.0.0.1:8080 or [::1]:8080`,
      })
    }
    if (rule.effect === 'allow' && rule.pattern.kind === 'name' && spansRentedZone(rule.pattern)) {
      warnings.push({
        kind: 'rented-zone',
        rule,
        message: `${rule.text} spans a zone in which anybody can rent a name`,
      })
    }
    if (rule.until === undefined) later.add(rule)
  }
  return warnings.toReversed()
}

/** True for an allow rule over metadata or this machine alone that does not name one address and its port. */
function opensNothing({ effect, pattern, ports, namesPorts }: Rule): boolean {
  if (effect === 'exclude' || pattern.kind === 'name') return false
  const ends = [pattern.cidr.first, lastOf(pattern.cidr)]
  const isSingle = pattern.cidr.bits === familyBits(pattern.cidr.first.family)
  const closed = ends.every((ip) => classifyIp(ip).kind === 'metadata' || isThisHost(ip))
  return closed && !(isSingle && namesPorts && ports.some(({ low, high }) => low === high))
}

/** A warning in the same form as a problem. */
export function formatWarning(warning: LintWarning): string {
  const { source, line, column } = warning.rule.origin
  const problem: Problem = {
    code: 'POLICY_RULE',
    message: warning.message,
    at: { file: source, line, column },
  }
  return formatProblem(problem).replace('[POLICY_RULE]', `[${warning.kind}]`)
}

/** The nearest later rule that wins wherever this one matches. */
function findCovering(later: LiteralIndex, rule: Rule): Rule | undefined {
  for (const one of later.candidates(rule.pattern)) {
    if (!portsCover(one.ports, rule.ports) || !patternCovers(one.pattern, rule.pattern)) continue
    if (!mattersToFloor(rule, one)) return one
  }
  return undefined
}

/**
 * True if an address rule still does something for the address floor or our own addresses that a later, covering rule
 * that allows does not undo: see `opensFloor`.
 */
function mattersToFloor(rule: Rule, later: Rule): boolean {
  if (later.effect === 'exclude' || rule.pattern.kind === 'name' || later.pattern.kind === 'name')
    return false
  const isExact = (one: Rule) =>
    rule.ports.some(({ low, high }) => low === high && isExactAddressRule(one, low))
  if (rule.effect === 'allow' && isExact(rule) && !isExact(later)) return true
  const ends = [rule.pattern.cidr.first, lastOf(rule.pattern.cidr)].map(classifyIp)
  const { floor } = classifyIp(later.pattern.cidr.first)
  const opens = floor !== undefined && cidrCovers(floor, later.pattern.cidr)
  return ends.some(({ kind }) => kind !== 'public') && !opens
}
