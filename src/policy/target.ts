import { parseIpv6 } from './address.ts'
import { formatHost, type Host, type HostFault, ipHost, parseHost } from './host.ts'

/** How a client came: CONNECT, a plain HTTP request, SOCKS, or without knowing of a proxy at all. */
export type Via = 'connect' | 'forward' | 'socks' | 'transparent'

/** What the client means to speak, as far as it has said so. */
export type Scheme = 'http' | 'https' | 'ws' | 'wss' | 'tcp'

/** What is asked for, canonical. */
export interface Target {
  readonly scheme: Scheme
  readonly host: Host
  readonly port: number
  readonly via: Via
}

/** A text that names no target. */
export interface BadTarget {
  readonly bad: string
  /** The text as it came: escape and cut it before it is shown. */
  readonly text: string
  readonly via: Via
}

const DEFAULT_PORTS: Readonly<Record<string, number>> = { http: 80, ws: 80, https: 443, wss: 443 }

/** True if the text named no target. */
export function isBadTarget(target: Target | BadTarget): target is BadTarget {
  return 'bad' in target
}

/** Reads a port of one to five digits, 1 to 65535; anything else is undefined. */
export function parsePort(text: string): number | undefined {
  if (!/^\d{1,5}$/.test(text)) return undefined
  const port = Number(text)
  return port >= 1 && port <= 65535 ? port : undefined
}

/** Splits `host:port` at the colon behind the host; the port is undefined if there is none. */
export function splitAuthority(text: string): { host: string; port: string | undefined } {
  const colon = text.lastIndexOf(':')
  return colon === -1 || text.indexOf(']', colon) !== -1
    ? { host: text, port: undefined }
    : { host: text.slice(0, colon), port: text.slice(colon + 1) }
}

interface AuthorityOptions {
  readonly scheme: Scheme
  readonly via: Via
  /** The port that an authority without one means; without this option the port is required. */
  readonly defaultPort?: number
}

/** Reads the `host:port` of a CONNECT (RFC 9110 7.2, authority-form) or of a URI. */
export function parseAuthority(text: string, options: AuthorityOptions): Target | BadTarget {
  const { scheme, via, defaultPort } = options
  const refuse = (bad: string): BadTarget => ({ bad, text, via })
  if (text.includes('@')) return refuse('user information is not allowed')
  const { host: hostText, port: portText } = splitAuthority(text)
  const port = portText === undefined ? defaultPort : parsePort(portText)
  if (port === undefined) {
    return refuse(portText === undefined ? 'the port is missing' : 'the port is not 1 to 65535')
  }
  const host: Host | HostFault = parseHost(hostText)
  return host.kind === 'bad' ? refuse(host.why) : { scheme, host, port, via }
}

/**
 * Reads a target as people write it: `host`, `host:port`, `[v6]`, `[v6]:port`, a bare IPv6 address, or a URL of scheme
 * http, https, ws or wss, whose path is ignored. Without a scheme and a port it is port 443.
 */
export function parseTarget(text: string): Target | BadTarget {
  const url = /^([a-z][a-z\d+.-]*):\/\/([^/?#]*)/i.exec(text)
  if (url === null) {
    const bare = text.includes('[') ? undefined : parseIpv6(text)
    if (bare) return { scheme: 'tcp', host: ipHost(bare), port: 443, via: 'connect' }
    return parseAuthority(text, { scheme: 'tcp', via: 'connect', defaultPort: 443 })
  }
  const scheme = (url[1] ?? '').toLowerCase()
  const defaultPort = DEFAULT_PORTS[scheme]
  if (defaultPort === undefined || !Object.hasOwn(DEFAULT_PORTS, scheme)) {
    return { bad: `the scheme ${scheme} is not http, https, ws or wss`, text, via: 'connect' }
  }
  const via = scheme === 'http' || scheme === 'ws' ? 'forward' : 'connect'
  const target = parseAuthority(url[2] ?? '', { scheme: scheme as Scheme, via, defaultPort })
  return isBadTarget(target) ? { ...target, text } : target
}

/** `host:port`, as CONNECT has it. */
export function formatTarget(target: Target): string {
  return `${formatHost(target.host)}:${target.port}`
}
