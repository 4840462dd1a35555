import { classifyIp, embeddedIpv4, isThisHost } from './address-kind.ts'
import { cidrCovers, type IpAddress } from './address.ts'
import { localNameKind } from './local-names.ts'
import { isWildcard } from './pattern.ts'
import { portsContain } from './ports.ts'
import type { Policy } from './policy.ts'
import { type Bucket, lastInBucket, lastMatch } from './rule-bucket.ts'
import { isExactAddressRule, isLive, type Rule } from './rule.ts'
import { type BadTarget, isBadTarget, type Target } from './target.ts'

/** Why a request is allowed. */
export type AllowReason = 'rule' | 'mode-default'

/** Why a request is denied or refused. Closed; a code is never reused. */
export type DenyReason =
  | 'bad-target'
  | 'metadata-address'
  | 'special-address'
  | 'excluded'
  | 'port'
  | 'expired'
  | 'ip-literal'
  | 'no-rule'
  | 'address-excluded'
  | 'unresolvable'
  | 'dial'
  | 'sni'
  | 'not-tls'
  | 'host-mismatch'
  | 'auth'
  | 'limit'
  | 'draining'
  | 'loop'
  | 'internal'

export type Reason = AllowReason | DenyReason

/** What a policy says about a target. A value: nothing is thrown on a denial. */
export type Decision =
  | { readonly verdict: 'allow'; readonly reason: AllowReason; readonly rule?: Rule }
  | { readonly verdict: 'deny'; readonly reason: DenyReason; readonly rule?: Rule }

/**
 * Decides. Pure: the same policy, target and time give the same answer. The first of these that holds:
 *  1. the target is malformed: `bad-target`;
 *  2. an address in the metadata set, then in the address floor, or a name that stands for one, that no rule opens:
 *     `metadata-address`, `special-address` (in every mode);
 *  3. the last rule that matches host and port is an exclusion: `excluded`; it allows: `rule`. Addresses ask only
 *     address rules, names only name rules. A rule past its `until` does not match;
 *  4. in allowlist mode, an allow rule matches the host but not the port: `port`; one past its `until` would have
 *     allowed: `expired`;
 *  5. in allowlist mode an address: `ip-literal`, a name: `no-rule`; in the other modes `mode-default` allows.
 *
 * @param nowMs milliseconds since 1970, for rules with `until`
 */
export function decide(policy: Policy, target: Target | BadTarget, nowMs: number): Decision {
  if (isBadTarget(target)) return { verdict: 'deny', reason: 'bad-target' }
  const { host, port } = target
  return host.kind === 'ip'
    ? decideAddress(policy, host.ip, port, nowMs)
    : decideName(policy, host.name, port, nowMs)
}

function decideName(policy: Policy, name: string, port: number, nowMs: number): Decision {
  const buckets = policy.names.buckets(name)
  const rule = lastMatch(buckets, port, nowMs)
  const local = localNameKind(name)
  if (local !== undefined && !(rule && isExactAllow(rule))) {
    return { verdict: 'deny', reason: floorReason(local) }
  }
  return byRule(rule) ?? withoutRule(policy, buckets, port, nowMs, 'no-rule')
}

function decideAddress(policy: Policy, ip: IpAddress, port: number, nowMs: number): Decision {
  const bucket = policy.addresses.bucket(ip)
  const { kind } = classifyIp(ip)
  if (kind !== 'public' && !opensFloor(policy, ip, port, nowMs)) {
    return { verdict: 'deny', reason: floorReason(kind) }
  }
  const rule = excludedInside(policy, ip, port, nowMs) ?? lastInBucket(bucket, port, nowMs)
  return byRule(rule) ?? withoutRule(policy, [bucket], port, nowMs, 'ip-literal')
}

/** The reason for a kind of address that the floor keeps closed. */
export function floorReason(kind: string): 'metadata-address' | 'special-address' {
  return kind === 'metadata' ? 'metadata-address' : 'special-address'
}

function isExactAllow(rule: Rule): boolean {
  return rule.effect === 'allow' && rule.pattern.kind === 'name' && !isWildcard(rule.pattern)
}

function byRule(rule: Rule | undefined): Decision | undefined {
  if (rule === undefined) return undefined
  return rule.effect === 'exclude'
    ? { verdict: 'deny', reason: 'excluded', rule }
    : { verdict: 'allow', reason: 'rule', rule }
}

/** Steps 4 and 5. */
function withoutRule(
  policy: Policy,
  buckets: readonly Bucket[],
  port: number,
  nowMs: number,
  fallback: 'ip-literal' | 'no-rule',
): Decision {
  if (policy.mode !== 'allowlist') return { verdict: 'allow', reason: 'mode-default' }
  let expired: Rule | undefined
  for (const bucket of buckets) {
    for (const rule of bucket) {
      if (rule.effect === 'exclude') continue
      if (portsContain(rule.ports, port)) expired ??= rule
      else if (isLive(rule, nowMs)) return { verdict: 'deny', reason: 'port', rule }
    }
  }
  if (expired) return { verdict: 'deny', reason: 'expired', rule: expired }
  return { verdict: 'deny', reason: fallback }
}

/**
 * True if a rule opens an address of the floor on this port: an address rule that lies wholly inside one range of the
 * floor and that no later exclusion takes back. Metadata, this machine, addresses that are special only by the IPv4
 * address they carry, and whatever is asked `exactly` open by a rule for that very address and port alone.
 */
export function opensFloor(
  policy: Policy,
  ip: IpAddress,
  port: number,
  nowMs: number,
  exactly = false,
): boolean {
  const { kind, floor } = classifyIp(ip)
  const needsExactRule = exactly || kind === 'metadata' || isThisHost(ip)
  for (const rule of policy.addresses.bucket(ip)) {
    if (!portsContain(rule.ports, port) || !isLive(rule, nowMs)) continue
    if (rule.effect === 'exclude') return false
    if (isExactAddressRule(rule, port)) return true
    if (needsExactRule || floor === undefined) continue
    if (rule.pattern.kind === 'ip' && cidrCovers(floor, rule.pattern.cidr)) return true
  }
  return false
}

/** The exclusion that the address, or an IPv4 address inside it, ends on; an exclusion is never narrower than it reads. */
export function excludedInside(
  policy: Policy,
  ip: IpAddress,
  port: number,
  nowMs: number,
): Rule | undefined {
  const rule = lastInBucket(policy.addresses.bucket(ip), port, nowMs)
  if (rule?.effect === 'exclude') return rule
  if (ip.family === 4) return undefined
  for (const inner of embeddedIpv4(ip)) {
    const excluded = excludedInside(policy, inner, port, nowMs)
    if (excluded) return excluded
  }
  return undefined
}
