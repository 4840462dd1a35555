import type { IncomingMessage } from 'node:http'
import { type BadTarget, isBadTarget, parseAuthority, type Target } from '../policy/target.ts'
import { formatHost } from '../policy/host.ts'

/** What is looked at of a head, whoever read it. */
export type RequestHead = Pick<IncomingMessage, 'method' | 'url' | 'httpVersion' | 'rawHeaders'>

/** Of a request that came without a head: nothing in it can be wrong. */
export const NO_HEAD: RequestHead = {
  method: 'CONNECT',
  url: '',
  httpVersion: '1.1',
  rawHeaders: [],
}

/** Why a request is refused by its head alone. */
export interface HeadFault {
  readonly kind: 'fault'
  readonly reason: 'bad-target' | 'host-mismatch' | 'unresolvable'
  readonly why: string
  readonly target?: Target | BadTarget
}

/** What a request asks for. */
export interface RequestTarget {
  readonly kind: 'target'
  readonly target: Target
  /** The path and query for the upstream; empty for CONNECT. */
  readonly path: string
}

/** All values of a field, in order. `name` in lower case. */
export function fieldValues(request: RequestHead, name: string): string[] {
  const values: string[] = []
  const { rawHeaders } = request
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const field = rawHeaders[i] ?? ''
    if (field.length === name.length && field.toLowerCase() === name) {
      values.push(rawHeaders[i + 1] ?? '')
    }
  }
  return values
}

/** How long the head is, as it would be written. Node's own bound counts names and values alone. */
export function headBytes(request: RequestHead): number {
  const { rawHeaders, method = '', url = '' } = request
  let bytes = method.length + url.length + '  HTTP/1.1\r\n\r\n'.length
  for (const text of rawHeaders) bytes += text.length + 2
  return bytes
}

/** True if the head announces a body. */
export function announcesBody(request: RequestHead): boolean {
  const lengths = fieldValues(request, 'content-length')
  return (
    fieldValues(request, 'transfer-encoding').length > 0 || lengths.some((value) => value !== '0')
  )
}

/** How many hops an OPTIONS may still take (RFC 9110 7.6.2); undefined if it does not say, and for other methods. */
export function hopsLeft(request: RequestHead): number | undefined {
  if (request.method !== 'OPTIONS') return undefined
  const [value = '', ...more] = fieldValues(request, 'max-forwards')
  return more.length === 0 && /^\d{1,9}$/.test(value) ? Number(value) : undefined
}

function fault(reason: HeadFault['reason'], why: string, target?: Target | BadTarget): HeadFault {
  return { kind: 'fault', reason, why, ...(target && { target }) }
}

/**
 * What Node's parser lets pass and this proxy does not, for every request: versions besides 1.0 and 1.1, more than one
 * Host (RFC 9112 3.2), a Transfer-Encoding besides `chunked` or on HTTP/1.0 (RFC 9112 6.1), two lengths of a body.
 */
function checkFraming(request: RequestHead): HeadFault | undefined {
  const { httpVersion } = request
  if (httpVersion !== '1.1' && httpVersion !== '1.0') {
    return fault('bad-target', `HTTP/${httpVersion} is not spoken here`)
  }
  if (fieldValues(request, 'host').length > 1)
    return fault('host-mismatch', 'more than one Host field')
  const codings = fieldValues(request, 'transfer-encoding')
  if (codings.length === 0) return undefined
  if (codings.length > 1 || codings[0]?.toLowerCase() !== 'chunked') {
    return fault('bad-target', 'the only transfer coding accepted is chunked')
  }
  if (httpVersion === '1.0') return fault('bad-target', 'HTTP/1.0 has no transfer codings')
  return fieldValues(request, 'content-length').length > 0
    ? fault('bad-target', 'Content-Length beside Transfer-Encoding')
    : undefined
}

/** Reads a CONNECT head: the target in authority-form, its port included, and no body (RFC 9110 9.3.6). */
export function readConnect(request: RequestHead): RequestTarget | HeadFault {
  const text = request.url ?? ''
  const target = parseAuthority(text, { scheme: 'tcp', via: 'connect' })
  if (isBadTarget(target)) return fault('bad-target', target.bad, target)
  const framing = checkFraming(request)
  if (framing) return { ...framing, target }
  return announcesBody(request) || fieldValues(request, 'content-length').length > 0
    ? fault('bad-target', 'a CONNECT has no body', target)
    : { kind: 'target', target, path: '' }
}

/** Reads the head of a plain HTTP request: absolute-form (RFC 9112 3.2.2), http or ws, and a Host that agrees. */
export function readForward(request: RequestHead): RequestTarget | HeadFault {
  const text = request.url ?? ''
  const uri = /^([a-z][a-z\d+.-]*):\/\/([^/?#]*)([^#]*)(#?)/i.exec(text)
  const bad = (why: string) => fault('bad-target', why, { bad: why, text, via: 'forward' })
  if (uri === null)
    return bad('this is a proxy: the request has to name the whole URL, or be a CONNECT')
  const [, scheme = '', authority = '', rest = '', hash = ''] = uri
  if (!/^(?:http|ws)$/i.test(scheme)) return bad(`${scheme}: is not forwarded; use CONNECT`)
  if (hash !== '') return bad('a request has no fragment')
  const target = parseAuthority(authority, { scheme: 'http', via: 'forward', defaultPort: 80 })
  if (isBadTarget(target)) return fault('bad-target', target.bad, { ...target, text })
  const path = rest.startsWith('/') ? rest : `/${rest}`
  const optionsStar = request.method === 'OPTIONS' && rest === '' ? '*' : path
  const problem = checkFraming(request) ?? checkHost(request, target)
  return problem ? { ...problem, target } : { kind: 'target', target, path: optionsStar }
}

/** Reads the head of a request inside a tunnel: origin-form or absolute-form, for the tunnel's own name and port. */
export function readTunnelled(request: RequestHead, tunnel: Target): RequestTarget | HeadFault {
  const text = request.url ?? ''
  if (!text.startsWith('/') && text !== '*') {
    const absolute = readForward(request)
    if (absolute.kind === 'fault') return { ...absolute, target: tunnel }
    return sameAuthority(absolute.target, tunnel)
      ? { ...absolute, target: { ...tunnel, scheme: 'http' } }
      : fault('host-mismatch', 'the URL names another host than the tunnel', tunnel)
  }
  if (text.includes('#')) return fault('bad-target', 'a request has no fragment', tunnel)
  const target: Target = { ...tunnel, scheme: 'http' }
  const problem = checkFraming(request) ?? checkHost(request, target)
  return problem ? { ...problem, target: tunnel } : { kind: 'target', target, path: text }
}

function sameAuthority(a: Target, b: Target): boolean {
  return a.port === b.port && formatHost(a.host) === formatHost(b.host)
}

/** RFC 9112 3.2: the Host of a request agrees with its target; HTTP/1.0 may do without. */
function checkHost(request: RequestHead, target: Target): HeadFault | undefined {
  const [value] = fieldValues(request, 'host')
  if (value === undefined) {
    return request.httpVersion === '1.0'
      ? undefined
      : fault('host-mismatch', 'the Host field is missing', target)
  }
  const host = parseAuthority(value, {
    scheme: 'http',
    via: target.via,
    defaultPort: hostPort(target),
  })
  if (isBadTarget(host))
    return fault('host-mismatch', `the Host field is no host: ${host.bad}`, target)
  return sameAuthority(host, target)
    ? undefined
    : fault('host-mismatch', 'the Host field names another host than the request', target)
}

/** The port that a Host without one means: 80, or the port of the tunnel that the request came through. */
function hostPort(target: Target): number {
  return target.via === 'forward' ? 80 : target.port
}
