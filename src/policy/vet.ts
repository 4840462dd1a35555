import { type AddressKind, classifyIp } from './address-kind.ts'
import type { IpAddress } from './address.ts'
import { type Decision, excludedInside, floorReason, opensFloor } from './decide.ts'
import type { Policy } from './policy.ts'

/** What the machine that dials is itself, as far as vetting must know. */
export interface LocalAddresses {
  /** True for an address of this machine. */
  isOwn(ip: IpAddress): boolean
  /** True for an address and port that the proxy itself listens on. */
  isListener(ip: IpAddress, port: number): boolean
}

/** Why an address may not be dialled. */
export type VetReason = 'loop' | 'metadata-address' | 'special-address' | 'address-excluded'

interface VetRequest {
  readonly ip: IpAddress
  readonly port: number
  /** The decision that let the request come this far. */
  readonly decision: Decision
  /** True if the operator gave this address for the name: then the floor does not hold, metadata and loops do. */
  readonly given: boolean
  readonly nowMs: number
}

/**
 * Says why an address may not be dialled for a decided target; undefined if it may. Every address of every dial comes
 * through here. In this order: our own listeners (never open), metadata and this machine's addresses (open by an exact
 * IP:port rule), exclusions by address, the floor (open by an address rule inside one range of it, or for private
 * addresses by an exact name with `private: true`).
 */
export function vetAddress(
  policy: Policy,
  local: LocalAddresses,
  request: VetRequest,
): VetReason | undefined {
  const { ip, port, decision, given, nowMs } = request
  if (local.isListener(ip, port)) return 'loop'
  const { kind } = classifyIp(ip)
  const own = !given && local.isOwn(ip)
  if ((kind === 'metadata' || own) && !opensFloor(policy, ip, port, nowMs, true)) {
    return floorReason(kind)
  }
  if (excludedInside(policy, ip, port, nowMs)) return 'address-excluded'
  if (kind === 'public' || kind === 'metadata' || own || given) return undefined
  if (opensByName(decision, kind) || opensFloor(policy, ip, port, nowMs)) return undefined
  return 'special-address'
}

function opensByName(decision: Decision, kind: AddressKind): boolean {
  return kind === 'private' && decision.rule?.private === true
}
