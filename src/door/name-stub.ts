import { parseIpv4 } from '../policy/address.ts'
import { type Host, parseHost } from '../policy/host.ts'
import { DeniedLookups } from './denied-lookups.ts'
import {
  CLASS_IN,
  datagramBytes,
  type DnsReply,
  MAX_STREAM_BYTES,
  type Question,
  RCODE,
  type Rcode,
  readQuery,
  TYPE,
  writeAnswer,
} from './dns-message.ts'
import type { SyntheticNames } from './synthetic-names.ts'

type NamedHost = Host & { readonly kind: 'name' }

/** What a stub resolver is made of. */
export interface NameStubSetup {
  /** The addresses that it gives. */
  readonly names: SyntheticNames
  /** True if the policy allows some port of the name now. */
  readonly mayReach: (host: NamedHost) => boolean
  /**
   * A denied name with a dot in it was looked up. Called once for the types that a resolver asks for in one go, and again when it
   * asks again.
   *
   * @param name in canonical form
   */
  readonly onDenied: (name: string) => void
  /** A clock in milliseconds that never goes back. */
  readonly now: () => number
  /** The sandbox's own name, which is 127.0.0.1. Default: it has none. */
  readonly hostname?: string
}

/** The stub resolver of a sandbox: DNS messages in, DNS messages out. It looks nothing up, and throws for no message. */
export interface NameStub {
  /** The answer to a datagram: at most 512 octets, or what the query says by EDNS, up to 1,232. Undefined: none is given. */
  answerDatagram(query: Buffer): Buffer | undefined
  /** The answer to a message of a stream, without its length in front. Undefined: none is given. */
  answerStream(query: Buffer): Buffer | undefined
}

/**
 * How long an answer holds, in seconds. Long enough that the connection that follows a look-up needs no second one, and
 * short, since policies are loaded anew and an address can be taken from a name that nobody uses.
 */
const TTL = 5

const LOOPBACK = '127.0.0.1'
const REVERSE_IPV4 = '.in-addr.arpa'
/** The reverse name of `::1` (RFC 3596 2.5). */
const REVERSE_LOOPBACK_IPV6 = `1.${'0.'.repeat(31)}ip6.arpa`

const NO_DATA = only(RCODE.noError)
const NO_SUCH_NAME = only(RCODE.noSuchName)

/** Makes the stub resolver of one sandbox. docs/transparent.md has what it answers to what. */
export function createNameStub({
  names,
  mayReach,
  onDenied,
  now,
  hostname,
}: NameStubSetup): NameStub {
  const denied = new DeniedLookups(now)
  const ownHost = hostname === undefined ? undefined : parseHost(hostname)
  const ownName = ownHost?.kind === 'name' ? ownHost.name : undefined

  const replyTo = (question: Question): DnsReply => {
    if (question.class !== CLASS_IN) return only(RCODE.refused)
    if (question.name === '.') return NO_DATA
    const host = question.name === undefined ? undefined : parseHost(question.name)
    if (host?.kind !== 'name') return NO_SUCH_NAME
    const { name } = host
    if (name === 'localhost' || name.endsWith('.localhost')) return loopback(question.type, '::1')
    if (name === ownName) return loopback(question.type)
    if (/(?:^|\.)(?:in-addr|ip6)\.arpa$/.test(name)) return reverse(name, question.type)
    if (mayReach(host)) return allowed(name, question.type)
    return isOfAllowed(name, question.type) ? NO_DATA : refuse(name, question.type)
  }

  const allowed = (name: string, type: number): DnsReply => {
    if (type !== TYPE.A) return NO_DATA
    const data = names.addressOf(name)
    return data === undefined ? only(RCODE.serverFailure) : record('A', data)
  }

  /** Asked about an allowed name, and for no address: nobody was going anywhere else. */
  const isOfAllowed = (name: string, type: number): boolean => {
    const host = type === TYPE.A || type === TYPE.AAAA ? undefined : hostOfService(name)
    return host !== undefined && mayReach(host)
  }

  const refuse = (name: string, type: number): DnsReply => {
    if (name.includes('.') && denied.begins(name, type)) onDenied(name)
    return NO_SUCH_NAME
  }

  const reverse = (name: string, type: number): DnsReply => {
    const data = name === REVERSE_LOOPBACK_IPV6 ? 'localhost' : nameOfIpv4(name)
    if (data === undefined) return NO_SUCH_NAME
    return type === TYPE.PTR ? record('PTR', data) : NO_DATA
  }

  const nameOfIpv4 = (name: string): string | undefined => {
    if (!name.endsWith(REVERSE_IPV4)) return undefined
    const address = name.slice(0, -REVERSE_IPV4.length).split('.').toReversed().join('.')
    if (address === LOOPBACK) return 'localhost'
    return parseIpv4(address) && names.nameOf(address)
  }

  const answer = (bytes: Buffer, maxBytes?: number): Buffer | undefined => {
    const query = readQuery(bytes)
    if (query === undefined) return undefined
    const { question, fault } = query
    const reply =
      question === undefined || fault !== undefined
        ? only(fault ?? RCODE.malformed)
        : replyTo(question)
    return writeAnswer(query, reply, maxBytes ?? datagramBytes(query))
  }

  return {
    answerDatagram: (query) => answer(query),
    answerStream: (query) => answer(query, MAX_STREAM_BYTES),
  }
}

/** The host whose service a name is (RFC 8552): `_https._tcp.api.test` is one of `api.test`. */
function hostOfService(name: string): NamedHost | undefined {
  const [, host] = /^(?:_[^.]*\.)+([^_].*)$/.exec(name) ?? []
  return host === undefined ? undefined : { kind: 'name', name: host }
}

function only(rcode: Rcode): DnsReply {
  return { rcode, ttl: TTL }
}

function record(type: 'A' | 'AAAA' | 'PTR', data: string): DnsReply {
  return { rcode: RCODE.noError, record: { type, data }, ttl: TTL }
}

/** The answer for a name of the sandbox itself (RFC 6761 6.3). */
function loopback(type: number, ipv6?: string): DnsReply {
  if (type === TYPE.A) return record('A', LOOPBACK)
  return type === TYPE.AAAA && ipv6 !== undefined ? record('AAAA', ipv6) : NO_DATA
}
