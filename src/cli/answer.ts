import { classifyIp } from '../policy/address-kind.ts'
import { decide, type Decision } from '../policy/decide.ts'
import { suggestRule } from '../policy/explain.ts'
import type { Policy } from '../policy/policy.ts'
import { formatOrigin } from '../policy/rule.ts'
import { type BadTarget, isBadTarget, type Target } from '../policy/target.ts'
import { vetAddress } from '../policy/vet.ts'
import { HostAddresses } from '../proxy/local-addresses.ts'
import type { GivenAddresses } from './resolve-option.ts'

/** What a policy says about a target, in the form that `test --json` prints. */
export interface Answer {
  readonly target: string
  readonly verdict: 'allow' | 'deny'
  readonly reason: string
  readonly rule: string | null
  readonly origin: string | null
  /** `needed`: the verdict stands only if the addresses of the name do. `given`: by `--resolve`. Else `none`. */
  readonly lookup: 'needed' | 'given' | 'none'
}

/**
 * Decides a target as a proxy would, without asking DNS. Addresses given for its name are vetted as if a resolver had
 * answered with them: the target is allowed if one of them may be dialled; if none may, `suggestion` is the rule by name
 * that would open them, if there is one.
 */
export function answerTarget(
  policy: Policy,
  target: Target | BadTarget,
  text: string,
  given: GivenAddresses,
  nowMs: number,
): { readonly answer: Answer; readonly suggestion: string | undefined } {
  const decision = decide(policy, target, nowMs)
  if (isBadTarget(target) || target.host.kind === 'ip' || decision.verdict === 'deny') {
    return { answer: toAnswer(text, decision, 'none'), suggestion: undefined }
  }
  const addresses = given.find(target.host.name, target.port)
  if (addresses.length === 0) {
    return { answer: toAnswer(text, decision, 'needed'), suggestion: undefined }
  }
  const local = new HostAddresses(() => nowMs)
  const reasons = addresses.map(({ ip, toPort }) =>
    vetAddress(policy, local, { ip, port: toPort ?? target.port, decision, given: false, nowMs }),
  )
  const [first] = reasons
  const vetted: Decision =
    first === undefined || reasons.includes(undefined)
      ? decision
      : { verdict: 'deny', reason: first }
  // Only private addresses have a rule by name that opens them.
  const arePrivate = addresses.every(({ ip }) => classifyIp(ip).kind === 'private')
  const suggestion = arePrivate ? suggestRule(vetted, target) : undefined
  return { answer: toAnswer(text, vetted, 'given'), suggestion }
}

function toAnswer(target: string, decision: Decision, lookup: Answer['lookup']): Answer {
  const { verdict, reason, rule } = decision
  return {
    target,
    verdict,
    reason,
    rule: rule?.text ?? null,
    origin: rule ? formatOrigin(rule.origin) : null,
    lookup,
  }
}
