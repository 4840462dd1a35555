import {
  type ClientRequest,
  type IncomingMessage,
  request as httpRequest,
  type ServerResponse,
} from 'node:http'
import { formatHost } from '../policy/host.ts'
import type { Target } from '../policy/target.ts'
import type { Admitted, ProxyCore } from './core.ts'
import { endToEndFields, fieldPairs, passableTrailers, viaEntry } from './headers.ts'
import { announcesBody, fieldValues } from './request-head.ts'
import type { PooledRequestArgs, VettedAgent } from './upstream-pool.ts'

/** Methods for which Node adds no body framing of its own. */
const BARE_METHODS = new Set(['GET', 'HEAD', 'DELETE', 'OPTIONS', 'TRACE'])

interface UpstreamOptions {
  readonly agent: VettedAgent
  /** Aborted when the client leaves. */
  readonly dialSignal: AbortSignal
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
  const { agent, dialSignal, hopFields = [] } = options
  const { target, path } = admitted
  const args: PooledRequestArgs = {
    agent,
    admitted,
    dialSignal,
    method: request.method ?? 'GET',
    path,
    host: formatHost(target.host),
    port: target.port,
    setHost: false,
    maxHeaderSize: 64 * 1024,
    headers: [...upstreamFields(request, target, core.pseudonym), ...hopFields],
  }
  return httpRequest(args)
}

/** The fields of the upstream request: Host made anew from the target, framing as the client had it, Via added. */
function upstreamFields(request: IncomingMessage, target: Target, pseudonym: string): string[] {
  const fields = ['Host', hostField(target), ...endToEndFields(request.rawHeaders, ['host'])]
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

/** Passes an interim answer on (RFC 9110 15.2), except to clients that cannot read one. */
export function relayInterim(
  response: ServerResponse,
  request: IncomingMessage,
  interim: { statusCode: number; statusMessage: string; rawHeaders: string[] },
): void {
  const { socket } = response
  if (request.httpVersion === '1.0' || response.headersSent || !socket?.writable) return
  const lines = [...fieldPairs(endToEndFields(interim.rawHeaders))].map(
    ([name, value]) => `${name}: ${value}\r\n`,
  )
  socket.write(
    `HTTP/1.1 ${interim.statusCode} ${safePhrase(interim.statusMessage)}\r\n${lines.join('')}\r\n`,
    'latin1',
  )
}

/** True for a status that a final answer can have (RFC 9110 15). */
export function isFinalStatus(status: number | undefined): status is number {
  return status !== undefined && status >= 200 && status <= 599
}

/** Passes the final answer on: head, body, trailers. A body that breaks off breaks off for the client too. */
export function relayResponse(
  upstream: IncomingMessage,
  request: IncomingMessage,
  response: ServerResponse,
  pseudonym: string,
): void {
  const isChunked = fieldValues(upstream, 'transfer-encoding').length > 0
  const hasLength = !isChunked && fieldValues(upstream, 'content-length').length > 0
  const canTrail = !hasLength && request.httpVersion !== '1.0' && request.method !== 'HEAD'
  const dropped = [...(isChunked ? ['content-length'] : []), ...(canTrail ? [] : ['trailer'])]
  const fields = endToEndFields(upstream.rawHeaders, dropped)
  fields.push('Via', viaEntry(upstream, pseudonym))
  response.sendDate = false
  try {
    response.writeHead(upstream.statusCode ?? 502, safePhrase(upstream.statusMessage ?? ''), fields)
  } catch (error) {
    upstream.destroy()
    throw error
  }
  response.flushHeaders()
  upstream.pipe(response, { end: false })
  upstream.once('end', () => {
    const trailers = canTrail ? passableTrailers(upstream.rawTrailers) : []
    if (trailers.length > 0) response.addTrailers([...fieldPairs(trailers)])
    response.end()
  })
  upstream.once('close', () => {
    if (!upstream.readableEnded) response.destroy()
  })
  upstream.on('error', () => response.destroy())
}

/** A reason phrase without what no phrase may have. */
export function safePhrase(phrase: string): string {
  return phrase.replace(/[^\t\u0020-\u007e\u00a0-\u00ff]/g, '?')
}
