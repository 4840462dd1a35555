import { cidrContains, type Cidr, type IpAddress, parseIpv4, parseIpv6 } from './address.ts'

// The address floor: what no name may resolve to unless a rule opens it. The table follows the two IANA
// special-purpose address registries as of 2026-11 (RFC 6890 and its successors), the multicast and reserved blocks,
// and IPv6 space that IANA has not given out (everything outside 2000::/3). First match wins, so exceptions come first.

/** `private` is what `private: true` may open; `metadata` is the cloud's credential services. */
export type AddressKind =
  | 'public'
  | 'private'
  | 'loopback'
  | 'link-local'
  | 'shared'
  | 'documentation'
  | 'benchmarking'
  | 'multicast'
  | 'reserved'
  | 'metadata'

interface SpecialRange {
  readonly range: Cidr
  readonly kind: AddressKind
}

/** What an address is, and the range of the floor it lies in. */
export interface AddressClass {
  readonly kind: AddressKind
  /** Undefined for a public address, and for one that is special only by the IPv4 address inside it. */
  readonly floor?: Cidr
}

function readRange(text: string): Cidr {
  const [address = '', bits = ''] = text.split('/')
  const first = parseIpv4(address) ?? parseIpv6(address)
  if (first === undefined) throw new TypeError(`not a range: ${text}`)
  return { first, bits: bits === '' ? (first.family === 4 ? 32 : 128) : Number(bits) }
}

function table(rows: readonly (readonly [string, AddressKind])[]): readonly SpecialRange[] {
  return rows.map(([text, kind]) => ({ range: readRange(text), kind }))
}

const METADATA = [
  '169.254.169.254', // AWS, Azure, Google, OpenStack, DigitalOcean, Oracle and others
  '169.254.169.253', // AWS: the VPC resolver
  '169.254.170.2', // AWS ECS task credentials
  '169.254.170.23', // AWS EKS pod identity
  '169.254.42.42', // Scaleway
  '168.63.129.16', // Azure wire server
  '100.100.100.200', // Alibaba Cloud
  '192.0.0.192', // Oracle Cloud classic
  'fd00:ec2::254', // AWS over IPv6
  'fd00:ec2::253', // AWS resolver over IPv6
  'fd00:ec2::23', // AWS EKS pod identity over IPv6
  'fd00:42::42', // Scaleway over IPv6
  'fd20:ce::254', // Google over IPv6
].map(readRange)

const IPV4 = table([
  ['192.0.0.9/32', 'public'], // PCP anycast
  ['192.0.0.10/32', 'public'], // TURN anycast
  ['0.0.0.0/8', 'reserved'],
  ['10.0.0.0/8', 'private'],
  ['100.64.0.0/10', 'shared'],
  ['127.0.0.0/8', 'loopback'],
  ['169.254.0.0/16', 'link-local'],
  ['172.16.0.0/12', 'private'],
  ['192.0.0.0/24', 'reserved'],
  ['192.0.2.0/24', 'documentation'],
  ['192.88.99.0/24', 'reserved'], // 6to4 relay anycast, withdrawn
  ['192.168.0.0/16', 'private'],
  ['198.18.0.0/15', 'benchmarking'],
  ['198.51.100.0/24', 'documentation'],
  ['203.0.113.0/24', 'documentation'],
  ['224.0.0.0/4', 'multicast'],
  ['240.0.0.0/4', 'reserved'],
])

const IPV6 = table([
  ['::/128', 'reserved'],
  ['::1/128', 'loopback'],
  ['64:ff9b:1::/48', 'reserved'], // local-use translation
  ['100::/64', 'reserved'], // discard-only
  ['100:0:0:1::/64', 'reserved'], // dummy prefix
  ['fc00::/7', 'private'],
  ['fe80::/10', 'link-local'],
  ['fec0::/10', 'reserved'], // site-local, deprecated
  ['ff00::/8', 'multicast'],
  ['2001:1::1/128', 'public'], // PCP anycast
  ['2001:1::2/128', 'public'], // TURN anycast
  ['2001:1::3/128', 'public'], // DNS-SD SRP anycast
  ['2001:3::/32', 'public'], // AMT
  ['2001:4:112::/48', 'public'], // AS112
  ['2001:20::/28', 'public'], // ORCHIDv2
  ['2001:30::/28', 'public'], // DRIP
  ['2001:2::/48', 'benchmarking'],
  ['2001:db8::/32', 'documentation'],
  ['2001::/23', 'reserved'], // the rest of the IETF protocol assignments
  ['3fff::/20', 'documentation'],
  ['2000::/3', 'public'],
  ['::/0', 'reserved'], // not given out as global unicast: 5f00::/16 and all others
])

const NAT64 = readRange('64:ff9b::/96')
const TRANSLATED = readRange('::ffff:0:0:0/96')
const COMPATIBLE = readRange('::/96')
const SIX_TO_FOUR = readRange('2002::/16')
const TEREDO = readRange('2001::/32')

/**
 * The IPv4 addresses that an IPv6 address carries inside it: translation (RFC 6052, RFC 7915), compatible (RFC 4291),
 * 6to4 (RFC 3056) and Teredo (RFC 4380, server and client). Empty if it carries none. Mapped addresses are IPv4
 * already, see `unmap`.
 */
export function embeddedIpv4(ip: IpAddress): readonly IpAddress[] {
  if (ip.family === 4) return []
  const [a = 0, b = 0, , d = 0] = ip.words
  const v4 = (word: number): IpAddress => ({ family: 4, words: [word >>> 0] })
  if (cidrContains(NAT64, ip) || cidrContains(TRANSLATED, ip)) return [v4(d)]
  if (cidrContains(COMPATIBLE, ip) && d > 1) return [v4(d)]
  if (cidrContains(SIX_TO_FOUR, ip)) return [v4(((a & 0xffff) << 16) | (b >>> 16))]
  if (cidrContains(TEREDO, ip)) return [v4(b), v4(~d)]
  return []
}

const PUBLIC: AddressClass = { kind: 'public' }
const METADATA_CLASS: AddressClass = { kind: 'metadata' }

/** What kind of address this is. An address that carries IPv4 inside is judged by what it carries. */
export function classifyIp(ip: IpAddress): AddressClass {
  for (const one of METADATA) if (cidrContains(one, ip)) return METADATA_CLASS
  if (ip.family === 6) {
    const inner = embeddedIpv4(ip).map(classifyIp)
    if (inner.length > 0) {
      const worst =
        inner.find(({ kind }) => kind === 'metadata') ?? inner.find(({ kind }) => kind !== 'public')
      return { kind: worst?.kind ?? 'public' }
    }
  }
  for (const { range, kind } of ip.family === 4 ? IPV4 : IPV6) {
    if (!cidrContains(range, ip)) continue
    if (kind === 'public') return PUBLIC
    // The catch-all for space that is not given out is no range that a rule could lie inside.
    return range.bits === 0 ? { kind } : { kind, floor: range }
  }
  return PUBLIC
}

/** True for an address that always is the machine that dials it: loopback, and the unspecified address. */
export function isThisHost(ip: IpAddress): boolean {
  return ip.words.every((word) => word === 0) || classifyIp(ip).kind === 'loopback'
}
