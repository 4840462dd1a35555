import {
  type ClientRequest,
  type IncomingMessage,
  type OutgoingMessage,
  request as httpRequest,
  type ServerResponse,
} from 'node:http'
import { formatHost } from '../policy/host.ts'
import type { Target } from '../policy/target.ts'
import type { Admitted, ProxyCore } from './core.ts'
import {
  endToEndFields,
  fieldPairs,
  passableTrailers,
  type RawFields,
  viaEntry,
} from './headers.ts'
import { hasLostPeer, resetSocket } from './relay.ts'
import { announcesBody, fieldValues, hopsLeft } from './request-head.ts'
import type { DialWaiter } from './dial.ts'
import type { PooledRequestArgs, VettedAgent } from './upstream-pool.ts'

/** Methods for which Node adds no body framing of its own. */
const BARE_METHODS = new Set(['GET', 'HEAD', 'DELETE', 'OPTIONS', 'TRACE'])

interface UpstreamOptions {
  readonly agent: VettedAgent
  readonly dialWaiter: DialWaiter
  /** Fields of this hop to add, as a flat list. */
  readonly hopFields?: readonly string[]
}

/** Starts the request to the upstream that a client's request becomes. */
export function startUpstream(
  core: ProxyCore,
  request: IncomingMessage,
  admitted: Admitted,
  options: UpstreamOptions,
): ClientRequest {
  const { agent, dialWaiter, hopFields = [] } = options
  const { target, path } = admitted
  const args: PooledRequestArgs = {
    agent,
    admitted,
    dialWaiter,
    method: request.method ?? 'GET',
    path,
    host: formatHost(target.host),
    port: target.port,
    setHost: false,
    servername: '',
    maxHeaderSize: 64 * 1024,
    headers: [...upstreamFields(request, target, core.pseudonym), ...hopFields],
  }
  return httpRequest(args)
}

/** The fields of the upstream request: Host made anew from the target, framing as the client had it, Via added. */
function upstreamFields(request: IncomingMessage, target: Target, pseudonym: string): string[] {
  const hops = hopsLeft(request)
  const replaced = hops === undefined ? ['host'] : ['host', 'max-forwards']
  const fields = ['Host', hostField(target), ...endToEndFields(request.rawHeaders, replaced)]
  if (hops !== undefined) fields.push('Max-Forwards', String(hops - 1))
  if (fieldValues(request, 'transfer-encoding').length > 0)
    fields.push('Transfer-Encoding', 'chunked')
  else if (!announcesBody(request)) {
    const hasLength = fieldValues(request, 'content-length').length > 0
    if (!hasLength && !BARE_METHODS.has(request.method ?? '')) fields.push('Content-Length', '0')
  }
  fields.push('Via', viaEntry(request, pseudonym))
  return fields
}

/** The Host of a request for a target; port 80 is not written (RFC 9110 7.2). */
function hostField(target: Target): string {
  const host = formatHost(target.host)
  return target.port === 80 ? host : `${host}:${target.port}`
}

/**
 * Passes an interim answer on (RFC 9110 15.2), except to clients that cannot read one, or do not read at all: an
 * upstream may send any number of them.
 */
export function relayInterim(
  response: ServerResponse,
  request: IncomingMessage,
  interim: { statusCode: number; statusMessage: string; rawHeaders: string[] },
): void {
  const { socket } = response
  if (request.httpVersion === '1.0' || response.headersSent) return
  if (!socket?.writable || socket.writableNeedDrain) return
  const { statusCode, statusMessage, rawHeaders } = interim
  socket.write(
    bareHead(statusCode, statusMessage, endToEndFields(rawHeaders, ['content-length'])),
    'latin1',
  )
}

/** The head of an answer that has no body, as it goes on the wire in latin1. */
export function bareHead(status: number, phrase: string, fields: RawFields): string {
  const lines = [...fieldPairs(fields)].map(([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 ${status} ${safePhrase(phrase)}\r\n${lines.join('')}\r\n`
}

/** Sends a head before its body, in latin1: Node's `flushHeaders` would write it in UTF-8. */
export function flushHead(message: OutgoingMessage): void {
  message.write(Buffer.alloc(0))
}

/** Why an answer cannot be passed on as a final one (RFC 9110 15, RFC 9112 6.1); undefined if it can. */
export function whyUnusable(message: IncomingMessage): string | undefined {
  const { statusCode = 0, httpVersion } = message
  if (message.httpVersionMajor !== 1) return `it speaks HTTP/${httpVersion}`
  if (statusCode < 200 || statusCode > 599) return `its status ${statusCode} is none`
  const codings = fieldValues(message, 'transfer-encoding').join()
  return codings === '' || codings.toLowerCase() === 'chunked'
    ? undefined
    : 'its transfer coding is not chunked'
}

interface RelayOptions {
  readonly pseudonym: string
  /** Called in place of the end of the answer, which it has to bring about. */
  readonly finish: () => void
}

/** Passes the final answer on: head, body, trailers. A body that breaks off breaks off for the client too. */
export function relayResponse(
  upstream: IncomingMessage,
  request: IncomingMessage,
  response: ServerResponse,
  { pseudonym, finish }: RelayOptions,
): void {
  const isChunked = fieldValues(upstream, 'transfer-encoding').length > 0
  const hasLength = !isChunked && fieldValues(upstream, 'content-length').length > 0
  const canTrail = !hasLength && request.httpVersion !== '1.0' && request.method !== 'HEAD'
  const dropped = [
    ...(isChunked || upstream.statusCode === 204 ? ['content-length'] : []),
    ...(canTrail ? [] : ['trailer']),
  ]
  const fields = endToEndFields(upstream.rawHeaders, dropped)
  fields.push('Via', viaEntry(upstream, pseudonym))
  const phrase = safePhrase(upstream.statusMessage ?? '')
  response.sendDate = false
  // A client that is still sending cannot be sure where its next request would begin.
  if (!request.complete) response.shouldKeepAlive = false
  try {
    response.writeHead(upstream.statusCode ?? 502, phrase, fields)
  } catch (error) {
    upstream.destroy()
    throw error
  }
  upstream.pipe(response, { end: false })
  const hasBody = mayHaveBody(request.method, upstream.statusCode)
  if (hasBody) flushHead(response)
  // Node sends the head of an answer without a body with its end. Who is still sending has to know before that.
  else if (!request.complete && isAscii([phrase, ...fields].join(''))) response.flushHeaders()
  const source = upstream.socket
  let isCut = false
  // Such a body lasts until the connection ends, and Node takes every end of it for the proper one. The fault of libuv that
  // the relay knows of makes a reset look like one too, and Node's client lets go of the connection at once.
  const lasts = !isChunked && !hasLength && hasBody
  if (lasts) source.prependOnceListener('end', () => (isCut = hasLostPeer(source)))
  upstream.once('end', () => {
    if (lasts && (isCut || source.errored !== null)) {
      resetSocket(request.socket)
      return
    }
    const trailers = canTrail ? passableTrailers(upstream.rawTrailers, upstream.rawHeaders) : []
    if (trailers.length > 0) response.addTrailers([...fieldPairs(trailers)])
    finish()
  })
  const onClose = () => {
    if (!upstream.readableEnded) resetSocket(request.socket)
  }
  upstream.once('close', onClose)
  upstream.on('error', onClose)
}

function isAscii(text: string): boolean {
  return !/[^\0-\x7f]/.test(text)
}

/** RFC 9112 6.3. */
function mayHaveBody(method: string | undefined, status: number | undefined): boolean {
  return method !== 'HEAD' && status !== 204 && status !== 304
}

/** A reason phrase without what no phrase may have. */
function safePhrase(phrase: string): string {
  return phrase.replace(/[^\t\u0020-\u007e\u00a0-\u00ff]/g, '?')
}
