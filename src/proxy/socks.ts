import { parseIpv6 } from '../policy/address.ts'
import type { DenyReason } from '../policy/decide.ts'
import { type Host, type HostFault, ipHost, parseHost } from '../policy/host.ts'

// The messages of SOCKS 5 (RFC 1928) and of its user and password (RFC 1929), from bytes and to bytes.

/** The first byte of a client of SOCKS 5. */
export const SOCKS_VERSION = 5
export const NO_AUTHENTICATION = 0
export const PASSWORD = 2
const NO_METHOD = 0xff
export const CONNECT = 1

const PASSWORD_VERSION = 1
const IPV4 = 1
const NAME = 3
const IPV6 = 4

/** What a client's bytes are so far. */
export type SocksRead<T> =
  | { readonly kind: 'more' }
  | { readonly kind: 'bad'; readonly why: string }
  | { readonly kind: 'message'; readonly message: T; readonly length: number }

/** What a client wants of the proxy. */
export interface SocksRequest {
  readonly command: number
  /** Undefined for a type of address that there is not. */
  readonly host: Host | HostFault | undefined
  readonly port: number
  /** The target as it came, for records; escape it before it is shown. */
  readonly text: string
}

const MORE = { kind: 'more' } as const

/** The methods of authentication that a client offers (RFC 1928 3). */
export function readMethods(bytes: Buffer): SocksRead<readonly number[]> {
  const [version, count] = bytes
  if (version !== undefined && version !== SOCKS_VERSION) return bad('this is not SOCKS 5')
  if (count === undefined || bytes.length < 2 + count) return MORE
  return { kind: 'message', message: [...bytes.subarray(2, 2 + count)], length: 2 + count }
}

/** The password that a client shows; its user is nobody's business (RFC 1929 2). */
export function readPassword(bytes: Buffer): SocksRead<string> {
  const [version, userLength = 0] = bytes
  if (version !== undefined && version !== PASSWORD_VERSION) return bad('no user and password')
  const start = 3 + userLength
  const length = start + (bytes[start - 1] ?? 0)
  if (bytes.length < start || bytes.length < length) return MORE
  return { kind: 'message', message: bytes.toString('utf8', start, length), length }
}

/** What a client asks for (RFC 1928 4). A name is read as in a CONNECT: nothing of it is mapped. */
export function readRequest(bytes: Buffer): SocksRead<SocksRequest> {
  const [version, command, reserved, type, first] = bytes
  if (version !== undefined && version !== SOCKS_VERSION) return bad('the request is not SOCKS 5')
  if (reserved !== undefined && reserved !== 0) return bad('the reserved byte is not zero')
  if (command === undefined || type === undefined) return MORE
  const start = type === NAME ? 5 : 4
  const length = lengthOf(type, first)
  if (length === 'unknown') {
    const message = { command, host: undefined, port: 0, text: '' }
    return { kind: 'message', message, length: start }
  }
  const end = start + length
  if (first === undefined || bytes.length < end + 2) return MORE
  const port = bytes.readUInt16BE(end)
  const address = bytes.subarray(start, end)
  const { host, text } = hostOf(type, address)
  const message = { command, host, port, text: `${text}:${port}` }
  return { kind: 'message', message, length: end + 2 }
}

function bad(why: string): { readonly kind: 'bad'; readonly why: string } {
  return { kind: 'bad', why }
}

function lengthOf(type: number, first = 0): number | 'unknown' {
  if (type === IPV4) return 4
  if (type === IPV6) return 16
  return type === NAME ? first : 'unknown'
}

function hostOf(type: number, address: Buffer): { host: Host | HostFault; text: string } {
  if (type === NAME) {
    const text = address.toString('latin1')
    return { host: parseHost(text), text }
  }
  if (type === IPV4) {
    const text = address.join('.')
    return { host: parseHost(text), text }
  }
  const groups = Array.from({ length: 8 }, (_, i) => address.readUInt16BE(2 * i).toString(16))
  const text = groups.join(':')
  const ip = parseIpv6(text)
  return { host: ip ? ipHost(ip) : { kind: 'bad', why: 'no IPv6 address' }, text: `[${text}]` }
}

/** The method that was chosen (RFC 1928 3). */
export function methodAnswer(method: number): Buffer {
  return Buffer.from([SOCKS_VERSION, method])
}

/** No method that was offered will do. */
export const METHODS_REFUSED = methodAnswer(NO_METHOD)

/** What came of a user and password (RFC 1929 2). */
export const PASSWORD_ACCEPTED = Buffer.from([PASSWORD_VERSION, 0])
export const PASSWORD_REFUSED = Buffer.from([PASSWORD_VERSION, 1])

/** The answer to a request (RFC 1928 6). The address that is bound stays ours. */
export function requestAnswer(reply: number): Buffer {
  return Buffer.from([SOCKS_VERSION, reply, 0, IPV4, 0, 0, 0, 0, 0, 0])
}

export const GRANTED = 0
export const GENERAL_FAILURE = 1
export const NO_SUCH_COMMAND = 7
export const NO_SUCH_ADDRESS_TYPE = 8

/** The reply that comes closest to a refusal (RFC 1928 6). */
export function replyFor(reason: DenyReason, timedOut: boolean): number {
  if (timedOut) return 6
  switch (reason) {
    case 'unresolvable':
      return 4
    case 'dial':
      return 5
    case 'bad-target':
    case 'limit':
    case 'draining':
    case 'internal':
      return GENERAL_FAILURE
    default:
      return 2
  }
}

/** Where clients of SSH connect to: they print a refusal in their own protocol. */
export const SSH_PORT = 22

const HOST_NOT_ALLOWED_TO_CONNECT = 1
const SSH_MSG_DISCONNECT = 1

/**
 * A refusal in SSH's own protocol: a version, and a packet that says why (RFC 4253 4.2, 6, 11.1). Clients of SSH print it;
 * of a SOCKS reply they say no more than its number.
 */
export function sshRefusal(words: string): Buffer {
  const text = Buffer.from(words)
  const payload = Buffer.alloc(1 + 4 + 4 + text.length + 4)
  payload.writeUInt8(SSH_MSG_DISCONNECT, 0)
  payload.writeUInt32BE(HOST_NOT_ALLOWED_TO_CONNECT, 1)
  payload.writeUInt32BE(text.length, 5)
  text.copy(payload, 9)
  // At least four bytes, up to a multiple of eight.
  const padding = 4 + ((8 - ((4 + 1 + payload.length + 4) % 8)) % 8)
  const packet = Buffer.alloc(4 + 1 + payload.length + padding)
  packet.writeUInt32BE(packet.length - 4, 0)
  packet.writeUInt8(padding, 4)
  payload.copy(packet, 5)
  return Buffer.concat([Buffer.from('SSH-2.0-iterion_egress\r\n'), packet])
}
