import { EgressError } from '../errors.ts'
import { formatIp, type IpAddress, parseIpv4, parseIpv6 } from '../policy/address.ts'
import { parseHost } from '../policy/host.ts'
import { parsePort } from '../policy/target.ts'
import type { Resolver, ResolverAnswer } from '../proxy/resolver.ts'

/** One `--resolve HOST[:PORT]:ADDRESS[:PORT]`. */
interface GivenAddress {
  readonly name: string
  /** The port asked for; undefined is every port. */
  readonly port: number | undefined
  readonly ip: IpAddress
  /** The port to dial; undefined is the one asked for. */
  readonly toPort: number | undefined
}

/** Answers that the operator gives by hand. */
export interface GivenAddresses {
  /** The addresses given for a name and port; empty if none are. */
  find(name: string, port: number): readonly GivenAddress[]
  /** A resolver that answers with them and asks `fallback` for every other name. */
  toResolver(fallback: Resolver): Resolver
}

const FORM = /^([^:[\]]+)(?::(\d+))?:(?:\[([^\]]+)\]|([^:[\]]+))(?::(\d+))?$/

/**
 * Reads the values of `--resolve`. An IPv6 address stands in brackets.
 *
 * @throws {EgressError} USAGE
 */
export function parseResolveOptions(texts: readonly string[]): GivenAddresses {
  const given = texts.map(parseResolveOption)
  const find = (name: string, port: number) =>
    given.filter((one) => one.name === name && (one.port === undefined || one.port === port))
  return {
    find,
    toResolver: (fallback) => async (name, port) => {
      const found = find(name, port)
      return found.length > 0 ? found.map((one) => toAnswer(one, port)) : fallback(name, port)
    },
  }
}

function toAnswer({ ip, toPort }: GivenAddress, port: number): ResolverAnswer {
  return { address: formatIp(ip), port: toPort ?? port, given: true }
}

function parseResolveOption(text: string): GivenAddress {
  const fail = (why: string) => {
    const form = 'HOST[:PORT]:ADDRESS[:PORT], an IPv6 address in brackets'
    return new EgressError(
      'USAGE',
      `--resolve ${JSON.stringify(text)}: ${why}; the form is ${form}`,
    )
  }
  const match = FORM.exec(text)
  if (match === null) throw fail('it cannot be read')
  const [, hostText = '', portText, six, four, toPortText] = match
  const host = parseHost(hostText)
  if (host.kind !== 'name') throw fail('it needs a name')
  const ip = six === undefined ? parseIpv4(four ?? '') : parseIpv6(six)
  if (ip === undefined) throw fail(`${six ?? four ?? ''} is no address`)
  const port = portText === undefined ? undefined : parsePort(portText)
  const toPort = toPortText === undefined ? undefined : parsePort(toPortText)
  if (
    (portText !== undefined && port === undefined) ||
    (toPortText !== undefined && toPort === undefined)
  ) {
    throw fail('a port is a number from 1 to 65535')
  }
  return { name: host.name, port, ip, toPort }
}
