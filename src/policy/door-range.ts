import { type Cidr, cidrContains, cidrCovers, firstOf, formatCidr, parseIpv4 } from './address.ts'
import { classifyIp } from './address-kind.ts'

/** How a sandbox sees what is allowed. */
export interface DoorPolicy {
  /** The addresses that stand for names inside a sandbox. */
  readonly syntheticRange: Cidr
}

/** 127.64.0.0/10 */
export const DEFAULT_DOOR: DoorPolicy = {
  syntheticRange: { first: { family: 4, words: [0x7f40_0000] }, bits: 10 },
}

const LOOPBACK_ADDRESS = { family: 4, words: [0x7f00_0001] } as const
const NARROWEST = 20
const WIDEST = 8
/** Kinds of addresses that nobody outside is meant by. */
const KINDS = new Set(['loopback', 'private', 'shared', 'benchmarking'])

/** Reads a range of addresses that may stand for names; a text says why it is none. */
export function readSyntheticRange(text: string): Cidr | string {
  const [, address = '', length = ''] = /^([\d.]+)\/(\d{1,2})$/.exec(text) ?? []
  const first = parseIpv4(address)
  const bits = Number(length)
  if (first === undefined || bits > 32) return 'it is no IPv4 range, such as 127.64.0.0/10'
  const range = { first, bits }
  const masked = firstOf(first, bits)
  if (masked.words[0] !== first.words[0]) {
    return `bits of the host are set: ${formatCidr({ first: masked, bits })}`
  }
  if (bits < WIDEST || bits > NARROWEST) {
    return `it has to be between /${WIDEST} and /${NARROWEST} wide`
  }
  const { kind, floor } = classifyIp(first)
  if (!KINDS.has(kind) || floor === undefined || !cidrCovers(floor, range)) {
    return 'it has to lie in addresses that mean nobody outside: loopback, private, shared or benchmarking'
  }
  if (cidrContains(range, LOOPBACK_ADDRESS))
    return 'it holds 127.0.0.1, which is the sandbox itself'
  return range
}
