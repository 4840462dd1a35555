import { domainToASCII, domainToUnicode } from 'node:url'
import { formatIp, type IpAddress, parseIpv4, parseIpv6, parseLooseIpv4, unmap } from './address.ts'

/** A host in its one canonical form: a lower-case name without the root dot, or an address. */
export type Host =
  | { readonly kind: 'name'; readonly name: string }
  | { readonly kind: 'ip'; readonly ip: IpAddress; readonly text: string }

/** Why a text is no host. */
export interface HostFault {
  readonly kind: 'bad'
  readonly why: string
}

const LABELS = /^[a-z\d_-]{1,63}(?:\.[a-z\d_-]{1,63})*$/
const ENDS_IN_NUMBER = /(?:^|\.)(?:\d+|0x[\da-f]*)$/

function bad(why: string): HostFault {
  return { kind: 'bad', why }
}

/**
 * Reads a host as it comes off the wire: a name, an IPv4 address in any unambiguous spelling, or an IPv6 address in
 * brackets. No mapping of Unicode takes place: whoever sends a name sends A-labels (RFC 5890).
 */
export function parseHost(text: string): Host | HostFault {
  if (text === '') return bad('the host is empty')
  if (text.startsWith('[') || text.includes(']')) return parseBracketed(text)
  // ASCII letters alone: toLowerCase would turn U+212A, the Kelvin sign, into a k.
  const lower = /[A-Z]/.test(text)
    ? text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase())
    : text
  const name = lower.endsWith('.') ? lower.slice(0, -1) : lower
  if (name.length > 253) return bad('a name has at most 253 characters')
  if (!LABELS.test(name)) return bad(whyNotLabels(name))
  if (isDigit(name.charCodeAt(name.lastIndexOf('.') + 1)) && ENDS_IN_NUMBER.test(name)) {
    if (name !== lower) return bad('a dot behind an IPv4 address')
    const ip = parseIpv4(name) ?? parseLooseIpv4(name)
    return ip ? ipHost(ip) : bad('a name that ends in a number must be an IPv4 address')
  }
  if (name.includes('xn--') && !name.split('.').every(isValidALabel)) {
    return bad('a label that starts with xn-- is not valid punycode')
  }
  return { kind: 'name', name }
}

function isDigit(code: number): boolean {
  return code >= 48 && code <= 57
}

/** The host that an address is. An IPv4-mapped IPv6 address is the IPv4 address that a socket would reach. */
export function ipHost(ip: IpAddress): Host {
  const plain = unmap(ip)
  return { kind: 'ip', ip: plain, text: formatIp(plain) }
}

/** The host as text, IPv6 in brackets: the form of a Host header, a log line and a rule. */
export function formatHost(host: Host): string {
  if (host.kind === 'name') return host.name
  return host.ip.family === 6 ? `[${host.text}]` : host.text
}

function parseBracketed(text: string): Host | HostFault {
  if (!text.startsWith('[') || !text.endsWith(']')) return bad('brackets do not enclose the host')
  const inner = text.slice(1, -1)
  if (inner.includes('%')) return bad('an IPv6 zone id is not allowed')
  const ip = parseIpv6(inner)
  return ip ? ipHost(ip) : bad('brackets may only hold an IPv6 address')
}

/**
 * True if a label is not an A-label at all, or one that decodes to Unicode and comes back unchanged (UTS 46). Newer
 * versions of Node pass ASCII through unlooked at, so that encoding alone proves nothing.
 */
export function isValidALabel(label: string): boolean {
  if (!label.startsWith('xn--')) return true
  const unicode = domainToUnicode(label)
  return unicode !== label && domainToASCII(unicode) === label
}

function whyNotLabels(name: string): string {
  if (name === '' || name.startsWith('.') || name.endsWith('.') || name.includes('..')) {
    return 'an empty label'
  }
  if (name.includes(':')) return 'a colon outside brackets'
  const odd = /[^a-z\d_.-]/u.exec(name)?.[0]
  if (odd === undefined) return 'a label has at most 63 characters'
  const code = (odd.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')
  return `the character U+${code} does not belong into a host`
}
