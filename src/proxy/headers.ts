import type { IncomingMessage } from 'node:http'

/** Fields that end at each hop (RFC 9110 7.6.1), and those that would tell on the proxy or steer it. */
const HOP_BY_HOP = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authentication-info',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
  // No field of HTTP, but CGI programs read it as the variable HTTP_PROXY.
  'proxy',
])

/** What no `Connection` field may take away: framing, and the host that was decided on. */
const UNREMOVABLE = new Set(['host', 'content-length', 'transfer-encoding'])

/** Fields that mean nothing, or too much, behind a body (RFC 9110 6.5.1). */
const NO_TRAILERS = new Set([
  ...HOP_BY_HOP,
  'host',
  'content-length',
  'content-encoding',
  'content-type',
  'content-range',
  'trailer',
  'authorization',
  'cookie',
  'set-cookie',
  'cache-control',
  'expect',
  'max-forwards',
  'pragma',
  'range',
  'location',
  'date',
  'expires',
  'age',
  'vary',
  'retry-after',
  'via',
  'www-authenticate',
])

/** The fields of a message as a flat list of names and values. */
export type RawFields = readonly string[]

/** The name-value pairs of a flat list. */
export function* fieldPairs(raw: RawFields): Generator<[name: string, value: string]> {
  for (let i = 0; i + 1 < raw.length; i += 2) yield [raw[i] ?? '', raw[i + 1] ?? '']
}

/** The names that `Connection` takes away, in lower case. */
function nominatedFields(head: RawFields): Set<string> {
  const nominated = new Set<string>()
  for (let i = 0; i + 1 < head.length; i += 2) {
    if (head[i]?.toLowerCase() !== 'connection') continue
    for (const option of (head[i + 1] ?? '').split(',')) {
      const lower = option.trim().toLowerCase()
      if (!UNREMOVABLE.has(lower)) nominated.add(lower)
    }
  }
  return nominated
}

/** The fields that go on to the next hop. `also` names further ones, in lower case, to leave out. */
export function endToEndFields(raw: RawFields, also: readonly string[] = []): string[] {
  const removed = nominatedFields(raw)
  for (const name of also) removed.add(name)
  const kept: string[] = []
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = raw[i] ?? ''
    const lower = name.toLowerCase()
    if (!HOP_BY_HOP.has(lower) && !removed.has(lower)) kept.push(name, raw[i + 1] ?? '')
  }
  return kept
}

/** The trailer fields that may be passed on. `Connection` in the head of the message names trailers too. */
export function passableTrailers(raw: RawFields, head: RawFields): string[] {
  const nominated = nominatedFields(head)
  const kept: string[] = []
  for (const [name, value] of fieldPairs(raw)) {
    const lower = name.toLowerCase()
    if (!NO_TRAILERS.has(lower) && !nominated.has(lower)) kept.push(name, value)
  }
  return kept
}

/** True if a list field holds this token, in any case. */
export function hasToken(values: readonly string[], token: string): boolean {
  return values.some((value) => value.split(',').some((one) => one.trim().toLowerCase() === token))
}

/** True if the request has come through this proxy before (RFC 9110 7.6.3). */
export function isLoop(viaValues: readonly string[], pseudonym: string): boolean {
  return viaValues.some((value) =>
    value
      .split(',')
      .some((hop) => hop.trim().split(/\s+/)[1]?.toLowerCase() === pseudonym.toLowerCase()),
  )
}

/** The `Via` entry that this proxy adds to a message. */
export function viaEntry(message: IncomingMessage, pseudonym: string): string {
  return `${message.httpVersion} ${pseudonym}`
}
