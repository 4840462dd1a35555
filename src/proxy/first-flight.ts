import { decide } from '../policy/decide.ts'
import { parseHost } from '../policy/host.ts'
import type { Policy } from '../policy/policy.ts'
import type { Target } from '../policy/target.ts'
import { type ClientHello, parseClientHello } from './client-hello.ts'

/** How many bytes of a client are read before it is judged by what they are. */
export const MAX_FLIGHT_BYTES = 16_384

/** What the first bytes of a tunnel are. */
export type Flight =
  | { readonly kind: 'more' }
  | { readonly kind: 'http1' }
  | { readonly kind: 'http2' }
  | { readonly kind: 'not-tls' }
  | { readonly kind: 'tls'; readonly hello: Exclude<ClientHello, { kind: 'more' }> }
  /** Too long, or too slow, to be told. */
  | { readonly kind: 'incomplete'; readonly tls: boolean }

/** What is noted about a flight, as events have it. */
export interface FlightNote {
  readonly tls?: 'other-sni' | 'no-sni' | 'unparsable' | 'incomplete'
  readonly sni?: string
  readonly ech?: boolean
}

/** What is done with a flight. */
export type FlightVerdict =
  | { readonly kind: 'pass'; readonly note: FlightNote }
  | { readonly kind: 'serve-http' }
  | {
      readonly kind: 'refuse'
      readonly reason: 'sni' | 'not-tls'
      readonly why: string
      readonly note: FlightNote
      /** The TLS alert (RFC 8446 6) that tells the client; undefined if it does not speak TLS. */
      readonly alert: number | undefined
    }

const ALERT = 21
const HANDSHAKE = 22

const ALERT_DECODE_ERROR = 50
const ALERT_ACCESS_DENIED = 49
const ALERT_UNRECOGNIZED_NAME = 112

const HTTP2_PREFACE = 'PRI * HTTP/2'

/** Says what the bytes so far are; `more` if that cannot be told yet. */
export function readFlight(bytes: Buffer): Flight {
  const first = bytes[0]
  if (first === undefined) return { kind: 'more' }
  const tlsLike = isTlsLike(bytes)
  if (tlsLike === undefined) return { kind: 'more' }
  if (tlsLike) {
    const hello = parseClientHello(bytes)
    if (hello.kind !== 'more') return { kind: 'tls', hello }
    return bytes.length >= MAX_FLIGHT_BYTES ? { kind: 'incomplete', tls: true } : { kind: 'more' }
  }
  return readText(bytes)
}

/**
 * TLS records of any type, and the hello of SSL 2, which servers of old still take. A server may ignore the version of
 * the first record (RFC 8446 5.1), and some do, so one that holds a hello or an alert counts under any.
 */
function isTlsLike(bytes: Buffer): boolean | undefined {
  const [first = 0, second, third, , , sixth] = bytes
  if (first >= 20 && first <= 24) {
    if (second === undefined || second === 3) return true
    if (first !== ALERT && first !== HANDSHAKE) return false
    return sixth === undefined ? undefined : sixth === 1 || (first === ALERT && sixth === 2)
  }
  if ((first & 0x80) === 0) return false
  return third === undefined ? undefined : third === 1
}

/**
 * HTTP/1 shows by its version, wherever it stands: what looks like it is served by a strict parser, which refuses what is
 * none. Servers skip white space in front of a request line, take any white space between its parts (RFC 9112 3), some
 * of them all that Unicode calls so, bytes that no URL may have, and HTTP/0.9 without a version. What is no token
 * followed by a blank cannot become a request line.
 */
function readText(bytes: Buffer): Flight {
  const long = bytes.length >= MAX_FLIGHT_BYTES
  const unknown: Flight = long ? { kind: 'incomplete', tls: false } : { kind: 'more' }
  let start = 0
  while (isWhiteSpace(bytes[start])) start++
  if (start === bytes.length) return unknown
  const text = bytes.toString('latin1', start)
  if (text.startsWith(HTTP2_PREFACE)) return { kind: 'http2' }
  if (/http\/\d/i.test(text)) return { kind: 'http1' }
  const end = text.indexOf('\n')
  const line = end === -1 ? text : text.slice(0, end)
  if (!/^[!#$%&'*+.^_`|~\w-]+(?:[\s\x1c-\x1f\x85]|$)/.test(line)) return { kind: 'not-tls' }
  if (end === -1) return unknown
  return /^\S+?[\s\x1c-\x1f\x85]+(?:\/|[a-z][a-z\d+.-]*:\/\/)/i.test(line)
    ? { kind: 'http1' }
    : { kind: 'not-tls' }
}

function isWhiteSpace(byte: number | undefined): boolean {
  if (byte === undefined) return false
  return (
    byte === 32 ||
    (byte >= 9 && byte <= 13) ||
    (byte >= 0x1c && byte <= 0x1f) ||
    byte === 0x85 ||
    byte === 0xa0
  )
}

/**
 * Judges the first flight of a tunnel to a name by the table of `docs/proxy.md` (TLS).
 *
 * @param nowMs milliseconds since 1970, for rules with `until`
 */
export function judgeFlight(
  policy: Policy,
  target: Target,
  flight: Flight,
  nowMs: number,
): FlightVerdict {
  const { sni, require } = policy.tls
  switch (flight.kind) {
    case 'http1':
      return { kind: 'serve-http' }
    case 'http2':
      return sni === 'enforce'
        ? refuse('not-tls', 'clear-text HTTP/2 is not let through', {}, undefined)
        : notTls(policy, target)
    case 'not-tls':
      return notTls(policy, target)
    case 'tls':
      return judgeHello(policy, target, flight.hello, nowMs)
    case 'more':
    case 'incomplete': {
      const isTls = flight.kind === 'incomplete' && flight.tls
      const why = 'the first bytes are too long or too slow to be judged'
      const note: FlightNote = { tls: 'incomplete' }
      return strict(sni, require)
        ? refuse('sni', why, note, isTls ? ALERT_ACCESS_DENIED : undefined)
        : pass(sni, note)
    }
    default:
      return refuse('sni', 'unknown', {}, undefined)
  }
}

function strict(sni: Policy['tls']['sni'], require: boolean): boolean {
  return sni === 'enforce' || require
}

function pass(sni: Policy['tls']['sni'], note: FlightNote): FlightVerdict {
  return { kind: 'pass', note: sni === 'off' ? {} : note }
}

function refuse(
  reason: 'sni' | 'not-tls',
  why: string,
  note: FlightNote,
  alert: number | undefined,
): FlightVerdict {
  return { kind: 'refuse', reason, why, note, alert }
}

function notTls(policy: Policy, target: Target): FlightVerdict {
  return policy.tls.require && target.port === 443
    ? refuse('not-tls', 'the policy requires TLS on port 443', {}, undefined)
    : { kind: 'pass', note: {} }
}

function judgeHello(
  policy: Policy,
  target: Target,
  hello: Exclude<ClientHello, { kind: 'more' }>,
  nowMs: number,
): FlightVerdict {
  const { sni, require } = policy.tls
  if (hello.kind === 'malformed') {
    const note: FlightNote = { tls: 'unparsable' }
    const why = `the TLS ClientHello cannot be read (${hello.why})`
    return strict(sni, require) ? refuse('sni', why, note, ALERT_DECODE_ERROR) : pass(sni, note)
  }
  const ech = hello.hasEch ? { ech: true } : {}
  if (hello.serverName === undefined) {
    const note: FlightNote = { tls: 'no-sni', ...ech }
    return require
      ? refuse('sni', 'the policy requires a TLS server name', note, ALERT_ACCESS_DENIED)
      : pass(sni, note)
  }
  const name = hello.serverName.slice(0, 256).replace(/[^\u0020-\u007e]/g, '?')
  if (isAllowedName(policy, target, hello.serverName, nowMs))
    return pass(sni, { sni: name, ...ech })
  const note: FlightNote = { tls: 'other-sni', sni: name, ...ech }
  return strict(sni, require)
    ? refuse(
        'sni',
        `the TLS server name ${name} is not allowed here`,
        note,
        ALERT_UNRECOGNIZED_NAME,
      )
    : pass(sni, note)
}

/** The name of the tunnel itself, or one that the policy allows on the same port. An address is neither. */
function isAllowedName(policy: Policy, target: Target, serverName: string, nowMs: number): boolean {
  const own = target.host.kind === 'name' ? target.host.name : undefined
  if (serverName === own) return true
  const host = parseHost(serverName)
  if (host.kind !== 'name') return false
  if (host.name === own) return true
  return decide(policy, { ...target, host }, nowMs).verdict === 'allow'
}

/** A fatal TLS alert as a record, before any key is agreed (RFC 8446 6). */
export function tlsAlert(description: number): Buffer {
  return Buffer.from([21, 3, 3, 0, 2, 2, description])
}
