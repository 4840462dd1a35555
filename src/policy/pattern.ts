import { domainToASCII } from 'node:url'
import { Minimatch } from 'minimatch'
import {
  type Cidr,
  cidrContains,
  familyBits,
  firstOf,
  formatCidr,
  formatIp,
  type IpAddress,
  parseIpv4,
  parseIpv6,
  parseLooseIpv4,
} from './address.ts'
import { type Host, isValidALabel } from './host.ts'

// The forms of a pattern:
//   api.example.com        that name                        203.0.113.7, 2001:db8::1   that address
//   *.example.com          exactly one label before it      10.0.0.0/8, 2001:db8::/32  the range
//   **.example.com         one or more labels before it     **                         any name
//   a.*.example.com, *-b.example.com   one label, or part of one; one star a label

/** A pattern over names. */
export interface NamePattern {
  readonly kind: 'name'
  /** True for a leading `**`. */
  readonly anyDepth: boolean
  /** The canonical spelling: lower case, A-labels, no root dot. */
  readonly text: string
}

/** A pattern over addresses. */
export interface IpPattern {
  readonly kind: 'ip'
  readonly cidr: Cidr
  readonly text: string
}

export type Pattern = NamePattern | IpPattern

/** Why a pattern is refused. */
export interface PatternFault {
  readonly kind: 'bad'
  readonly why: string
  readonly correction?: string
}

function bad(why: string, correction?: string): PatternFault {
  return correction === undefined ? { kind: 'bad', why } : { kind: 'bad', why, correction }
}

/** True if the name pattern has a star anywhere, so that it can match more than one name. */
export function isWildcard(pattern: NamePattern): boolean {
  return pattern.text.includes('*')
}

/** The labels of the pattern without its leading `**`. */
export function patternLabels(pattern: NamePattern): readonly string[] {
  const labels = pattern.text.split('.')
  return pattern.anyDepth ? labels.slice(1) : labels
}

/** The labels behind the last star: what every match ends with. */
export function literalEnd(pattern: NamePattern): string {
  const star = pattern.text.lastIndexOf('*')
  if (star === -1) return pattern.text
  const dot = pattern.text.indexOf('.', star)
  return dot === -1 ? '' : pattern.text.slice(dot + 1)
}

/** Reads the host part of a rule, without `!` and port. */
export function parsePattern(text: string): Pattern | PatternFault {
  const fault = findForbidden(text)
  if (fault) return fault
  const bracketed = /^\[([^\]]*)\]$/.exec(text)?.[1]
  if (bracketed !== undefined) {
    const ip = parseIpv6(bracketed)
    return ip
      ? ipPattern(ip, familyBits(ip.family))
      : bad('brackets may only hold an IPv6 address', bracketed)
  }
  if (text.includes('/')) return parseCidr(text)
  const ip = parseIpv4(text) ?? (text.includes(':') ? parseIpv6(text) : undefined)
  if (ip) return ipPattern(ip, familyBits(ip.family))
  if (text.includes(':')) return bad('this is neither a name nor an IPv6 address')
  return parseNamePattern(text)
}

function ipPattern(ip: IpAddress, bits: number): IpPattern {
  const [a, b, c, d = 0] = ip.words
  const mapped = ip.family === 6 && a === 0 && b === 0 && c === 0xffff && bits >= 96
  const cidr: Cidr = mapped
    ? { first: { family: 4, words: [d] }, bits: bits - 96 }
    : { first: ip, bits }
  return { kind: 'ip', cidr, text: formatCidr(cidr) }
}

function parseCidr(text: string): Pattern | PatternFault {
  const [address = '', bitsText = '', ...rest] = text.split('/')
  const ip = parseIpv4(address) ?? parseIpv6(address)
  if (ip === undefined) {
    const short = parseIpv4([...address.split('.'), '0', '0', '0'].slice(0, 4).join('.'))
    const loose = short ?? parseLooseIpv4(address)
    if (loose)
      return bad(
        'an IPv4 range is written with four decimal parts',
        `${formatIp(loose)}/${bitsText}`,
      )
    const bracketed = /^\[(.+)\]$/.exec(address)?.[1]
    if (bracketed !== undefined) return bad('a range has no brackets', `${bracketed}/${bitsText}`)
    return bad('a pattern has no path', address)
  }
  const bits = /^(?:0|[1-9]\d{0,2})$/.test(bitsText) ? Number(bitsText) : undefined
  const most = familyBits(ip.family)
  if (bits === undefined || bits > most || rest.length > 0) {
    return bad(`a prefix length is a number from 0 to ${most}`)
  }
  const first = firstOf(ip, bits)
  if (first.words.some((word, i) => word !== ip.words[i])) {
    return bad('the address has bits set behind the prefix length', `${formatIp(first)}/${bits}`)
  }
  return ipPattern(ip, bits)
}

/** Characters that no pattern may have, each with the reason. */
function findForbidden(text: string): PatternFault | undefined {
  if (text === '') return bad('the pattern is empty')
  const invisible = invisibleIn(text)
  if (invisible !== undefined) {
    const trimmed = text.trim()
    const correction = trimmed !== text && invisibleIn(trimmed) === undefined ? trimmed : undefined
    return bad(`the invisible character ${codePoint(invisible)} is not allowed`, correction)
  }
  const url = /^[a-z][a-z\d+.-]*:\/\/([^/?#]*)/i.exec(text)
  if (url) return bad('a pattern has no scheme and no path', url[1] === '' ? undefined : url[1])
  if (text.includes('@'))
    return bad('a pattern has no user information', text.slice(text.lastIndexOf('@') + 1))
  if (text.includes('%')) {
    return bad(
      'a pattern has no % (zone id or escape)',
      /^\[?([\da-f]*:[\da-f:.]*)%/i.exec(text)?.[1],
    )
  }
  const regex = /[?+^$(){}|\\]|\[(?![\da-f:.]*\](?:\/\d+)?$)/i.exec(text)?.[0]
  if (regex !== undefined)
    return bad(`${regex} is not allowed: patterns are no regular expressions`)
  const odd = /[\u0021-\u0029\u002b\u002c\u003b-\u003e\u0060\u007e]/.exec(text)?.[0]
  if (odd !== undefined) return bad(`the character ${codePoint(odd)} does not belong into a host`)
  return undefined
}

function invisibleIn(text: string): string | undefined {
  // U+FE0F behind an emoji only asks for its coloured form, and every reader of names drops it.
  const shown = text.replace(/(?<=[\u{80}-\u{10ffff}])\ufe0f/gu, (mark, at: number) =>
    /\p{Emoji}$/u.test(text.slice(Math.max(0, at - 2), at)) ? '' : mark,
  )
  return /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Z}\p{Default_Ignorable_Code_Point}]/u.exec(shown)?.[0]
}

function codePoint(char: string): string {
  return `U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`
}

function parseNamePattern(text: string): Pattern | PatternFault {
  const rooted = text.endsWith('.') && text.length > 1 ? text.slice(0, -1) : text
  const written = rooted.split('.')
  if (written.includes('')) {
    const rest = written.filter((label) => label !== '').join('.')
    if (rest === '') return bad('an empty label')
    return bad('an empty label', written[0] === '' ? `**.${rest}` : rest)
  }
  const anyDepth = written[0] === '**'
  const labels: string[] = []
  for (const label of anyDepth ? written.slice(1) : written) {
    const folded = foldLabel(label, text)
    if (typeof folded !== 'string') return folded
    labels.push(folded)
  }
  const canonical = [...(anyDepth ? ['**'] : []), ...labels].join('.')
  if (canonical.length > 253) return bad('a name has at most 253 characters')
  return numericFault(labels) ?? { kind: 'name', anyDepth, text: canonical }
}

/** One label in lower case and ASCII, or why it cannot be. */
function foldLabel(label: string, whole: string): string | PatternFault {
  if (label.includes('**')) {
    const tail = /^\*\*([^*]+)$/.exec(label)?.[1]
    const rest = whole.slice(2)
    return tail !== undefined && whole.startsWith(label)
      ? bad('** stands for whole labels', `**.${rest}`)
      : bad('** may only be the first label')
  }
  if (label.indexOf('*') !== label.lastIndexOf('*')) return bad('at most one * in a label')
  // Character by character: toLowerCase makes a final sigma of the last one of a word, and IDNA does not.
  const lower = Array.from(label.normalize('NFC'), (char) => char.toLowerCase()).join('')
  // The Kelvin sign alone of all characters becomes an ASCII letter by that.
  const isFolded = label.includes('\u212a')
  if (!isFolded && /^[a-z\d_*-]+$/.test(lower)) {
    if (lower.length > 63) return bad('a label has at most 63 characters')
    return isValidALabel(lower) || lower.includes('*')
      ? lower
      : bad('a label that starts with xn-- is not valid punycode')
  }
  if (lower.includes('*')) return bad('a label with * has to be ASCII')
  const plain = compatible(lower).toLowerCase()
  const ascii = domainToASCII(lower)
  if (isFolded || plain !== lower || (ascii !== '' && !ascii.startsWith('xn--'))) {
    const odd = Array.from(label).find((char) => compatible(char) !== char) ?? label
    const fixed = /^[\p{L}\p{M}\p{N}_.-]+$/u.test(plain) ? whole.replace(label, plain) : undefined
    return bad(`the look-alike character ${codePoint(odd)} is not allowed`, fixed)
  }
  if (ascii === '' || ascii.length > 63 || !isValidALabel(ascii)) {
    const odd = Array.from(lower).find((char) => char > '\u007f' && domainToASCII(char) === '')
    return bad(
      odd === undefined
        ? 'IDNA does not allow this label'
        : `IDNA does not allow ${codePoint(odd)}`,
    )
  }
  return ascii
}

/** What compatibility mapping makes of a text; the full stops of other scripts become dots. */
function compatible(text: string): string {
  return text.normalize('NFKC').replaceAll('\u3002', '.')
}

/** A pattern that looks like an address is none: it would match nothing. */
function numericFault(labels: readonly string[]): PatternFault | undefined {
  const text = labels.join('.')
  const stars = /^((?:\d{1,3}\.){1,3})\*(?:\.\*)*$/.exec(text)?.[1]
  if (stars !== undefined && labels.length === 4) {
    const known = stars.split('.').filter((part) => part !== '')
    const first = parseIpv4([...known, '0', '0', '0'].slice(0, 4).join('.'))
    return bad(
      'addresses are matched by range, not by *',
      first && `${formatIp(first)}/${known.length * 8}`,
    )
  }
  if (!/^(?:\d+|0x[\da-f]*)$/.test(labels.at(-1) ?? '')) return undefined
  const loose = parseLooseIpv4(text)
  return bad(
    'a numeric host has to be an IPv4 address of four decimal parts',
    loose && formatIp(loose),
  )
}

/** True if the pattern matches. The plain, slow way: `decide` uses an index, and a test holds the two together. */
export function matchesPattern(pattern: Pattern, host: Host): boolean {
  if (pattern.kind === 'ip') return host.kind === 'ip' && cidrContains(pattern.cidr, host.ip)
  if (host.kind === 'ip') return false
  if (!isWildcard(pattern)) return host.name === pattern.text
  return labelGlob(pattern).match(host.name.replaceAll('.', '/'))
}

/** minimatch with labels as path segments; its `**` is zero or more, ours is one or more. */
function labelGlob(pattern: NamePattern): Minimatch {
  const segments = pattern.anyDepth
    ? ['**', '*', ...patternLabels(pattern)]
    : patternLabels(pattern)
  return new Minimatch(segments.join('/'), {
    platform: 'linux',
    dot: true,
    nobrace: true,
    nocase: true,
    nocomment: true,
    noext: true,
    nonegate: true,
  })
}

/** The pattern in words. */
export function describePattern(pattern: Pattern): string {
  if (pattern.kind === 'ip') {
    const { first, bits } = pattern.cidr
    return bits === familyBits(first.family)
      ? `the address ${pattern.text}`
      : `every address of ${pattern.text}`
  }
  if (!isWildcard(pattern)) return `the name ${pattern.text}, no sub-names`
  const rest = patternLabels(pattern).join('.')
  if (pattern.anyDepth && rest === '') return 'any name, no addresses'
  if (!rest.includes('*')) return `any name below ${rest}, at any depth, not ${rest} itself`
  if (pattern.anyDepth) return `any name below ${rest}, where * is one label or part of one`
  return /^\*\.[^*]+$/.test(rest)
    ? `names exactly one label below ${rest.slice(2)}, not ${rest.slice(2)} itself`
    : `names of the form ${rest}, where * is one label or part of one`
}
