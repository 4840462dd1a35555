import { formatIp } from '../policy/address.ts'
import type { Host } from '../policy/host.ts'
import type { HeadFault, RequestTarget } from './request-head.ts'

/** Names that clients know by addresses which mean nothing outside. */
export interface AddressNames {
  /** True if the address is one that stands for a name, or could. */
  has(address: string): boolean
  /** The name that it stands for now. */
  nameOf(address: string): string | undefined
  /** A connection to the name is open, until it is released: the address stays its own. False: it has gone already. */
  hold(name: string): boolean
  release(name: string): void
}

/** Puts the name in the place of an address that stands for one; a fault if it stands for none any more. */
export function byName(
  names: AddressNames | undefined,
  head: RequestTarget | HeadFault,
): RequestTarget | HeadFault {
  if (names === undefined || head.kind !== 'target') return head
  const { target } = head
  if (target.host.kind !== 'ip') return head
  const address = formatIp(target.host.ip)
  if (!names.has(address)) return head
  const name = names.nameOf(address)
  if (name === undefined) {
    const why = `${address} stands for no name, or no longer; look the name up again`
    return { kind: 'fault', reason: 'unresolvable', why, target }
  }
  const host: Host = { kind: 'name', name }
  return { ...head, target: { ...target, host } }
}
