import { localNameKind } from './local-names.ts'
import { embeddedIpv4 } from './address-kind.ts'
import { decide, type Decision, excludedInside } from './decide.ts'
import { describePattern, matchesPattern } from './pattern.ts'
import type { Policy } from './policy.ts'
import { formatPorts, portsContain } from './ports.ts'
import { isLive, type Rule } from './rule.ts'
import { formatHost } from './host.ts'
import { type BadTarget, isBadTarget, type Target } from './target.ts'

/** A rule whose pattern matches the host, and what came of it. */
export interface RuleTrace {
  readonly rule: Rule
  /** The pattern in words. */
  readonly meaning: string
  readonly outcome: 'won' | 'overruled' | 'port' | 'expired' | 'floor'
}

/** A decision with the way it came about. */
export interface Explanation {
  readonly decision: Decision
  /** Every rule whose pattern matches the host or the IPv4 address inside it that is excluded, in policy order. */
  readonly trace: readonly RuleTrace[]
  /** The rule that would allow the target; undefined if it is allowed, or if no rule can. */
  readonly suggestion: string | undefined
}

/** Says how `decide` comes to its answer. The trace is made by matching every rule, not through the index. */
export function explain(policy: Policy, target: Target | BadTarget, nowMs: number): Explanation {
  const decision = decide(policy, target, nowMs)
  if (isBadTarget(target)) return { decision, trace: [], suggestion: undefined }
  const inner = excludedByInner(decision, target)
  const hits = policy.rules.filter(
    (rule) => rule === inner || matchesPattern(rule.pattern, target.host),
  )
  const isHit = (rule: Rule) => portsContain(rule.ports, target.port) && isLive(rule, nowMs)
  const last = hits.findLast(isHit)
  // Where the floor keeps a target closed, no rule has won.
  const winner = inner ?? (decision.rule && last)
  const trace = hits.map((rule): RuleTrace => {
    const meaning = `${describePattern(rule.pattern)}, ${describePorts(rule)}`
    if (rule === winner) return { rule, meaning, outcome: 'won' }
    if (!portsContain(rule.ports, target.port)) return { rule, meaning, outcome: 'port' }
    if (!isLive(rule, nowMs)) return { rule, meaning, outcome: 'expired' }
    return { rule, meaning, outcome: rule === last ? 'floor' : 'overruled' }
  })
  const suggestion = isExcludedInside(policy, target, nowMs)
    ? undefined
    : suggestRule(decision, target)
  return { decision, trace, suggestion }
}

/** The exclusion of the IPv4 address inside an IPv6 address, if that is what denied it. */
function excludedByInner({ reason, rule }: Decision, { host }: Target): Rule | undefined {
  return reason === 'excluded' && rule && !matchesPattern(rule.pattern, host) ? rule : undefined
}

/** True if the IPv4 address inside an IPv6 address is excluded: no rule for the outer one lifts that. */
function isExcludedInside(policy: Policy, { host, port }: Target, nowMs: number): boolean {
  if (host.kind === 'name') return false
  return embeddedIpv4(host.ip).some((ip) => excludedInside(policy, ip, port, nowMs))
}

function describePorts(rule: Rule): string {
  const text = formatPorts(rule.ports)
  return text === '*' ? 'every port' : `port ${text.replaceAll(',', ', ')}`
}

/** The rule that would allow a denied target, as it would be written in a file; undefined if none can. */
export function suggestRule(decision: Decision, target: Target | BadTarget): string | undefined {
  if (decision.verdict === 'allow' || isBadTarget(target)) return undefined
  if (excludedByInner(decision, target)) return undefined
  switch (decision.reason) {
    case 'no-rule':
    case 'port':
    case 'expired':
    case 'ip-literal':
    case 'excluded':
    case 'metadata-address':
      return `"${formatHost(target.host)}:${target.port}"`
    case 'special-address':
      if (target.host.kind === 'ip') return `"${formatHost(target.host)}:${target.port}"`
      // A local name leads to this machine: naming it opens the look-up, and never the address.
      return localNameKind(target.host.name) === undefined
        ? `{ host: "${target.host.name}", ports: [${target.port}], private: true }`
        : undefined
    default:
      return undefined
  }
}
