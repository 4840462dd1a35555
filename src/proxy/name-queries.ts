import { decide, type DenyReason } from '../policy/decide.ts'
import type { Target } from '../policy/target.ts'
import { type ProxyCore, recordRefusal } from './core.ts'
import { refusal } from './refuse.ts'

/** The port that a name is asked about if nobody says which: the one that is meant most often. */
const USUAL_PORT = 443

/** True if the policy allows one of the ports of a canonical name now. */
export function mayReach(core: ProxyCore, name: string, ports: readonly number[]): boolean {
  const nowMs = core.now()
  return ports.some((port) => decide(core.policy, targetOf(name, port), nowMs).verdict === 'allow')
}

/** Counts and records that a client looked up a canonical name which it may not reach. */
export function recordDeniedName(core: ProxyCore, name: string): void {
  const target = targetOf(name, USUAL_PORT)
  const decision = decide(core.policy, target, core.now())
  // It is allowed on a port that this way does not serve.
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
      return `no port of ${name} that is served is allowed`
    case 'expired':
      return `the rule for ${name} has expired`
    default:
      return `${name} does not stand for a public address`
  }
}
