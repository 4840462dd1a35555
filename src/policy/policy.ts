import type { AddressIndex } from './address-index.ts'
import type { DoorPolicy } from './door-range.ts'
import type { NameIndex } from './name-index.ts'
import type { PlacedRule } from './rule-bucket.ts'

/** What happens to a target that no rule speaks about: denied in `allowlist`, allowed in the others. */
export type Mode = 'allowlist' | 'denylist' | 'open'

/** What is done about the server name of a TLS tunnel, see `docs/policy.md`. */
export interface TlsPolicy {
  readonly sni: 'off' | 'report' | 'enforce'
  /** Refuse what is not TLS on port 443, and TLS without a server name. */
  readonly require: boolean
}

/** A policy, compiled and ready to decide. Frozen. */
export interface Policy {
  readonly mode: Mode
  readonly rules: readonly PlacedRule[]
  readonly names: NameIndex
  readonly addresses: AddressIndex
  /** Denied as ever, but without an event each time. */
  readonly quiet: NameIndex
  readonly tls: TlsPolicy
  /** The limits that the policy file sets, by their names in `docs/proxy.md`. */
  readonly limits: Readonly<Partial<Record<string, number>>>
  readonly door: DoorPolicy
  /** SHA-256 over everything that decides, in hexadecimal. */
  readonly digest: string
}
