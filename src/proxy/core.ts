import type { EgressEvent, EventData } from '../events/event.ts'
import { decide, type Decision, type DenyReason } from '../policy/decide.ts'
import type { Policy } from '../policy/policy.ts'
import { lastMatch } from '../policy/rule-bucket.ts'
import { formatOrigin } from '../policy/rule.ts'
import { type BadTarget, isBadTarget, type Target, type Via } from '../policy/target.ts'
import { type AddressNames, byName } from './address-names.ts'
import type { Authenticator } from './authenticate.ts'
import type { Dialer } from './dial.ts'
import type { Limits } from './limits.ts'
import { denialSentence, describeHost, type Refusal, refusal } from './refuse.ts'
import type { RelayCause } from './relay.ts'
import {
  fieldValues,
  headBytes,
  type HeadFault,
  type RequestHead,
  type RequestTarget,
} from './request-head.ts'
import type { Member, Registry } from './registry.ts'
import type { SlotKeeper } from './slots.ts'

/** Counters of a proxy since it was made. */
export interface ProxyCounters {
  allowed: number
  denied: Partial<Record<DenyReason, number>>
  bytesUp: number
  bytesDown: number
}

type Blocked = EventData<'network_blocked'>

/** Something under way that a drain waits for and then ends. */
export interface LiveTunnel extends Member {
  /** Has the upstream asked from now on whether it is there, and ends what is not. */
  keepAlive(): void
  destroy(cause: RelayCause): void
}

/** What every part of one proxy shares. */
export interface ProxyCore {
  readonly dialer: Dialer
  readonly authenticator: Authenticator | undefined
  /** Names that clients may call by addresses; undefined: none. */
  readonly names: AddressNames | undefined
  readonly counters: ProxyCounters
  readonly tunnels: Registry<LiveTunnel>
  /** The tunnels, from the decision to the close. */
  readonly slots: SlotKeeper
  /** Record allowed requests too. */
  readonly audit: boolean
  /** This proxy's name in `Via`, by which it knows its own requests again. */
  readonly pseudonym: string
  readonly now: () => number
  readonly emit: (event: EgressEvent) => void
  policy: Policy
  generation: number
  limits: Limits
  isDraining: boolean
}

/** A request that passed every check that comes before the dial. */
export interface Admitted {
  readonly kind: 'admitted'
  readonly target: Target
  readonly path: string
  readonly decision: Decision
  /** The policy that decided. */
  readonly generation: number
}

interface AdmitOptions {
  readonly via: Via
  /** True for a request inside a tunnel, which was authenticated when it was opened. */
  readonly isTrusted: boolean
  readonly read: () => RequestTarget | HeadFault
}

/** The checks of every request, in this order: draining, token, head, policy. */
export function admit(
  core: ProxyCore,
  request: RequestHead,
  options: AdmitOptions,
): Admitted | Refusal {
  const { via, isTrusted, read } = options
  const head = byName(core.names, read())
  const target = head.target
  if (core.isDraining) {
    return refusal({ reason: 'draining', detail: 'the proxy is shutting down', target, via })
  }
  if (!isTrusted && core.authenticator?.(fieldValues(request, 'proxy-authorization')) === false) {
    return refusal({ reason: 'auth', detail: 'a valid proxy token is needed', target, via })
  }
  if (headBytes(request) > core.limits.maxHeadBytes) {
    const detail = 'bad request: the head is too long'
    return refusal({ reason: 'bad-target', detail, status: 431, target, via })
  }
  if (head.kind === 'fault') {
    const detail = head.reason === 'unresolvable' ? head.why : `bad request: ${head.why}`
    return refusal({ reason: head.reason, detail, target, via })
  }
  const decision = decide(core.policy, head.target, core.now())
  if (decision.verdict === 'allow') {
    return {
      kind: 'admitted',
      target: head.target,
      path: head.path,
      decision,
      generation: core.generation,
    }
  }
  const detail = denialSentence(decision, head.target)
  const { mode } = core.policy
  return refusal({ reason: decision.reason, detail, target, via, decision, mode })
}

/** True if what `admit` answers is a refusal. */
export function isRefusal(result: Admitted | Refusal): result is Refusal {
  return 'reason' in result
}

/**
 * Counts a refusal and records it.
 *
 * @param givenPort the port to record; default: the target's
 */
export function recordRefusal(core: ProxyCore, refused: Refusal, givenPort?: number): void {
  const { reason, target, via, decision, detail, address, sni } = refused
  core.counters.denied[reason] = (core.counters.denied[reason] ?? 0) + 1
  const rule = decision?.rule
  const { host, port } = describeHost(target)
  const data: { -readonly [K in keyof Blocked]: Blocked[K] } = {
    host,
    port: givenPort ?? port,
    via,
    generation: core.generation,
    reason,
    detail,
  }
  if (rule) Object.assign(data, { rule: rule.text, origin: formatOrigin(rule.origin) })
  if (address !== undefined) data.address = address
  if (sni !== undefined) data.sni = sni
  core.emit({ type: 'network_blocked', data, quiet: isQuiet(core.policy, target) })
}

function isQuiet(policy: Policy, target: Target | BadTarget | undefined): boolean {
  if (target === undefined || isBadTarget(target) || target.host.kind === 'ip') return false
  return lastMatch(policy.quiet.buckets(target.host.name), target.port, 0) !== undefined
}

/**
 * Counts an allowed request, and records it if the operator wants that.
 *
 * @param isInTunnel true for a request inside a tunnel, which was recorded itself
 */
export function recordAllowed(
  core: ProxyCore,
  admitted: Admitted,
  address: string | undefined,
  isInTunnel = false,
): void {
  core.counters.allowed++
  if (!core.audit) return
  const { target, decision, generation } = admitted
  const { rule } = decision
  core.emit({
    type: 'network_allowed',
    data: {
      ...describeHost(target),
      via: target.via,
      generation,
      ...(rule && { rule: rule.text, origin: formatOrigin(rule.origin) }),
      ...(address !== undefined && { address }),
      ...(isInTunnel && { in_tunnel: true as const }),
    },
  })
}

/** Records a fault of our own. What is denied by it stays denied. */
export function recordInternalError(core: ProxyCore, error: unknown): void {
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error)
  core.emit({ type: 'internal_error', data: { message: message.slice(0, 4096) } })
}
