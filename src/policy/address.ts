// IP addresses as 32-bit words, and the kinds of address that a proxy for strangers must not reach.

/** An IP address: one 32-bit word for IPv4, four for IPv6, most significant first. */
export interface IpAddress {
  readonly family: 4 | 6
  readonly words: readonly number[]
}

/** An address range: the first address and how many leading bits are fixed. */
export interface Cidr {
  readonly first: IpAddress
  readonly bits: number
}

/** Reads dotted-quad IPv4 of four plain decimal octets; anything else is undefined. */
export function parseIpv4(text: string): IpAddress | undefined {
  const match = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(text)
  if (match === null) return undefined
  let word = 0
  for (const part of match.slice(1)) {
    const octet = Number(part)
    if (octet > 255 || (part.length > 1 && part.startsWith('0'))) return undefined
    word = word * 256 + octet
  }
  return { family: 4, words: [word] }
}

/**
 * Reads the looser spellings that inet_aton takes (decimal, hexadecimal, fewer than four parts).
 * A part with a leading zero is octal to some readers and decimal to others, so it is undefined here.
 */
export function parseLooseIpv4(text: string): IpAddress | undefined {
  const parts = text.toLowerCase().split('.')
  if (parts.length > 4) return undefined
  const values: number[] = []
  for (const part of parts) {
    if (!/^(?:0x[\da-f]{1,8}|0|[1-9]\d{0,9})$/.test(part)) return undefined
    values.push(Number(part))
  }
  const last = values.pop() ?? 0
  if (values.some((value) => value > 255) || last >= 256 ** (4 - values.length)) return undefined
  const head = values.reduce((sum, value, i) => sum + value * 256 ** (3 - i), 0)
  return { family: 4, words: [head + last] }
}

/** Reads an IPv6 address without brackets or zone (RFC 4291 2.2); anything else is undefined. */
export function parseIpv6(text: string): IpAddress | undefined {
  if (text.length > 45 || !/^[\da-fA-F:.]+$/.test(text)) return undefined
  let body = text
  const lastColon = body.lastIndexOf(':')
  if (body.includes('.')) {
    const tail = parseIpv4(body.slice(lastColon + 1))
    if (tail === undefined || lastColon === -1) return undefined
    const word = tail.words[0] ?? 0
    body = `${body.slice(0, lastColon + 1)}${(word >>> 16).toString(16)}:${(word & 0xffff).toString(16)}`
  }
  const halves = body.split('::')
  if (halves.length > 2) return undefined
  const [left, right] = halves.map((half) => (half === '' ? [] : half.split(':')))
  const groups = [...(left ?? [])]
  if (right !== undefined) {
    const missing = 8 - groups.length - right.length
    if (missing < 1) return undefined
    groups.push(...Array<string>(missing).fill('0'), ...right)
  }
  if (groups.length !== 8 || groups.some((group) => !/^[\da-fA-F]{1,4}$/.test(group)))
    return undefined
  const values = groups.map((group) => parseInt(group, 16))
  const words = [0, 2, 4, 6].map((i) => ((values[i] ?? 0) * 0x10000 + (values[i + 1] ?? 0)) >>> 0)
  return { family: 6, words }
}

/** The IPv4 address that an IPv4-mapped IPv6 address is; every other address is itself. */
export function unmap(ip: IpAddress): IpAddress {
  const [a, b, c, d] = ip.words
  return ip.family === 6 && a === 0 && b === 0 && c === 0xffff ? { family: 4, words: [d ?? 0] } : ip
}

/** The address in its one canonical spelling (RFC 5952 for IPv6), without brackets. */
export function formatIp(ip: IpAddress): string {
  if (ip.family === 4) {
    const word = ip.words[0] ?? 0
    return `${word >>> 24}.${(word >>> 16) & 255}.${(word >>> 8) & 255}.${word & 255}`
  }
  const groups = ip.words.flatMap((word) => [word >>> 16, word & 0xffff])
  let best = { start: -1, length: 1 }
  for (let i = 0; i < 8; i++) {
    let length = 0
    while (i + length < 8 && groups[i + length] === 0) length++
    if (length > best.length) best = { start: i, length }
  }
  const hex = (from: number, to: number) =>
    groups
      .slice(from, to)
      .map((group) => group.toString(16))
      .join(':')
  return best.start === -1
    ? hex(0, 8)
    : `${hex(0, best.start)}::${hex(best.start + best.length, 8)}`
}

/** True if both are the same address. */
export function sameIp(a: IpAddress, b: IpAddress): boolean {
  if (a.family !== b.family) return false
  for (let i = 0; i < a.words.length; i++) if (a.words[i] !== b.words[i]) return false
  return true
}

/** The word of a netmask at one position: `bits` fixed bits in all, 32 to a word. */
function maskWord(bits: number, index: number): number {
  const fixed = bits - index * 32
  if (fixed >= 32) return 0xffffffff
  return fixed <= 0 ? 0 : (0xffffffff << (32 - fixed)) >>> 0
}

/** The address with everything behind the first `bits` bits set to zero. */
export function firstOf(ip: IpAddress, bits: number): IpAddress {
  return {
    family: ip.family,
    words: ip.words.map((word, i) => (word & maskWord(bits, i)) >>> 0),
  }
}

/** The last address of a range. */
export function lastOf(cidr: Cidr): IpAddress {
  const { first, bits } = cidr
  return {
    family: first.family,
    words: first.words.map((word, i) => (word | ~maskWord(bits, i)) >>> 0),
  }
}

/** True if the address lies in the range. */
export function cidrContains(cidr: Cidr, ip: IpAddress): boolean {
  const { first, bits } = cidr
  if (first.family !== ip.family) return false
  if (ip.family === 4) {
    return bits === 0 || ((first.words[0] ?? 0) ^ (ip.words[0] ?? 0)) >>> (32 - bits) === 0
  }
  for (let i = 0; i * 32 < bits; i++) {
    if ((((first.words[i] ?? 0) ^ (ip.words[i] ?? 0)) & maskWord(bits, i)) !== 0) return false
  }
  return true
}

/** True if every address of `inner` lies in `outer`. */
export function cidrCovers(outer: Cidr, inner: Cidr): boolean {
  return outer.bits <= inner.bits && cidrContains(outer, inner.first)
}

/** How many bits an address of this family has. */
export function familyBits(family: 4 | 6): 32 | 128 {
  return family === 4 ? 32 : 128
}

/** A range as it is written in a rule. */
export function formatCidr(cidr: Cidr): string {
  return cidr.bits === familyBits(cidr.first.family)
    ? formatIp(cidr.first)
    : `${formatIp(cidr.first)}/${cidr.bits}`
}
