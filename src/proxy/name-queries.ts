import { decide, type DenyReason } from '../policy/decide.ts'
import type { Policy } from '../policy/policy.ts'
import type { Target } from '../policy/target.ts'
import { type ProxyCore, recordRefusal } from './core.ts'
import { refusal } from './refuse.ts'

/** The port that a name is asked about if nobody says which: the one that is meant most often. */
const USUAL_PORT = 443
const LAST_PORT = 65_535

/** True if the policy allows some port of a canonical name now. */
export function mayReach({ policy, now }: ProxyCore, name: string): boolean {
  const nowMs = now()
  const isAllowed = (port: number) =>
    decide(policy, targetOf(name, port), nowMs).verdict === 'allow'
  return isAllowed(USUAL_PORT) || turningPorts(policy, name).some(isAllowed)
}

/** The first port, and those at which what is decided of a name can change: where a range of a rule begins, and behind it. */
function turningPorts(policy: Policy, name: string): number[] {
  const ports = new Set([1])
  for (const bucket of policy.names.buckets(name)) {
    for (const { low, high } of bucket.flatMap((rule) => rule.ports)) {
      ports.add(low)
      if (high < LAST_PORT) ports.add(high + 1)
    }
  }
  return [...ports]
}

/** Counts and records that a client looked up a canonical name which it may not reach. */
export function recordDeniedName(core: ProxyCore, name: string): void {
  const target = targetOf(name, USUAL_PORT)
  const decision = decide(core.policy, target, core.now())
  // A policy that came meanwhile allows it.
  const reason = decision.verdict === 'deny' ? decision.reason : 'port'
  const detail = sentence(reason, name)
  recordRefusal(core, refusal({ reason, detail, target, via: target.via, decision }), 0)
}

function targetOf(name: string, port: number): Target {
  return { scheme: 'tcp', host: { kind: 'name', name }, port, via: 'transparent' }
}

function sentence(reason: DenyReason, name: string): string {
  switch (reason) {
    case 'no-rule':
      return `no rule allows ${name}`
    case 'excluded':
      return `a rule excludes ${name}`
    case 'port':
      return `no port of ${name} is allowed`
    case 'expired':
      return `the rule for ${name} has expired`
    default:
      return `${name} does not stand for a public address`
  }
}
