import { type IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Target } from '../policy/target.ts'
import {
  admit,
  type Admitted,
  isRefusal,
  type ProxyCore,
  recordAllowed,
  recordInternalError,
  recordRefusal,
} from './core.ts'
import { hasToken, isLoop } from './headers.ts'
import { type Refusal, refusal, refuseOnResponse } from './refuse.ts'
import { announcesBody, fieldValues, readForward, readTunnelled } from './request-head.ts'
import { dialRefusal } from './tunnel.ts'
import { DialError, type VettedAgent } from './upstream-pool.ts'
import { isFinalStatus, relayInterim, relayResponse, startUpstream } from './upstream-request.ts'

/** How a request came: over which pool it goes on, and for a request inside a tunnel, to where. */
export interface ForwardContext {
  readonly agent: VettedAgent
  readonly tunnel: Target | undefined
}

const IDEMPOTENT = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE'])

/** Every check of a plain HTTP request, loops and `Max-Forwards` included. */
export function admitForward(
  core: ProxyCore,
  request: IncomingMessage,
  context: ForwardContext,
): Admitted | Refusal {
  const { tunnel } = context
  const via = tunnel ? 'connect' : 'forward'
  const admitted = admit(core, request, {
    via,
    isTrusted: tunnel !== undefined,
    read: () => (tunnel ? readTunnelled(request, tunnel) : readForward(request)),
  })
  if (isRefusal(admitted)) return admitted
  const { target } = admitted
  if (isLoop(fieldValues(request, 'via'), core.pseudonym)) {
    return refusal({
      reason: 'loop',
      detail: 'the request has come through this proxy before',
      target,
      via,
    })
  }
  if (request.method === 'TRACE') {
    return refusal({
      reason: 'bad-target',
      detail: 'TRACE is not forwarded',
      status: 405,
      target,
      via,
    })
  }
  const isUpgrade = hasToken(fieldValues(request, 'connection'), 'upgrade')
  if (isUpgrade && fieldValues(request, 'upgrade').length > 0 && announcesBody(request)) {
    return refusal({
      reason: 'bad-target',
      detail: 'bad request: a body together with Upgrade',
      target,
      via,
    })
  }
  return admitted
}

/**
 * One plain HTTP request:
 *
 *     client ──request──▶ admit ──▶ pool (vetted dial) ──request──▶ upstream
 *     client ◀──1xx, answer, body, trailers, hop-by-hop fields taken out──── upstream
 */
export function serveForward(
  core: ProxyCore,
  request: IncomingMessage,
  response: ServerResponse,
  context: ForwardContext,
): void {
  const admitted = admitForward(core, request, context)
  if (isRefusal(admitted)) refuseForward(core, request, response, admitted)
  else exchange(core, request, response, { admitted, context, mayRetry: true })
}

/** Records a refusal and answers with it. */
export function refuseForward(
  core: ProxyCore,
  request: IncomingMessage,
  response: ServerResponse,
  refused: Refusal,
): void {
  recordRefusal(core, refused)
  refuseOnResponse(request, response, refused)
}

/** An answer for a request whose connection Node's server has handed over; the connection ends with it. */
export function detachedResponse(request: IncomingMessage, socket: Socket): ServerResponse {
  const response = new ServerResponse(request)
  response.shouldKeepAlive = false
  response.assignSocket(socket)
  response.once('finish', () => {
    response.detachSocket(socket)
    socket.end()
  })
  socket.once('close', () => response.destroy())
  return response
}

interface Exchange {
  readonly admitted: Admitted
  readonly context: ForwardContext
  readonly mayRetry: boolean
}

function exchange(
  core: ProxyCore,
  request: IncomingMessage,
  response: ServerResponse,
  parts: Exchange,
): void {
  const { admitted, context, mayRetry } = parts
  const abort = new AbortController()
  const upstream = startUpstream(core, request, admitted, {
    agent: context.agent,
    dialSignal: abort.signal,
  })
  const stop = () => {
    abort.abort()
    upstream.destroy()
  }
  response.once('close', stop)
  const hasBody = announcesBody(request)
  let answered = false
  const fail = (error: Error) => {
    response.removeListener('close', stop)
    if (response.destroyed) return
    if (answered) {
      response.destroy()
      return
    }
    answered = true
    if (mayRetry && canRetry(request, upstream.reusedSocket, hasBody)) {
      exchange(core, request, response, { ...parts, mayRetry: false })
      return
    }
    refuseForward(core, request, response, upstreamRefusal(core, admitted, error))
  }
  upstream.once('socket', (socket) => recordAllowed(core, admitted, socket.remoteAddress))
  upstream.on('error', fail)
  upstream.on('information', (interim) => relayInterim(response, request, interim))
  upstream.once('upgrade', (_message, socket) => {
    socket.destroy()
    fail(new UpstreamError('it switched protocols without being asked'))
  })
  upstream.once('response', (message) => {
    if (answered || !isFinalStatus(message.statusCode)) {
      message.destroy()
      fail(new UpstreamError(`its status ${message.statusCode} is none`))
      return
    }
    answered = true
    try {
      relayResponse(message, request, response, core.pseudonym)
    } catch {
      answered = false
      fail(new UpstreamError('its head cannot be passed on'))
    }
  })
  if (core.limits.responseIdleMs > 0) {
    upstream.setTimeout(core.limits.responseIdleMs, () => {
      upstream.destroy(new UpstreamError('it is silent', 504))
    })
  }
  if (!hasBody) {
    upstream.end()
    return
  }
  upstream.flushHeaders()
  request.pipe(upstream)
  request.once('error', stop)
}

/** What the upstream did that makes its answer unusable. */
export class UpstreamError extends Error {
  override readonly name = 'UpstreamError'
  readonly status: number

  constructor(message: string, status = 502) {
    super(message)
    this.status = status
  }
}

/** Errors that say something of the upstream, not of us: sockets, and an answer that is no HTTP. */
function isUpstreamError(error: Error): boolean {
  const code = (error as NodeJS.ErrnoException).code
  return (
    error instanceof UpstreamError ||
    (code !== undefined && /^(?:HPE_|E[A-Z]+$|ERR_STREAM)/.test(code))
  )
}

/** A pooled connection may close just as it is used again: then nothing was answered, and asking once more is safe. */
function canRetry(request: IncomingMessage, reusedSocket: boolean, hasBody: boolean): boolean {
  return reusedSocket && !hasBody && IDEMPOTENT.has(request.method ?? '')
}

/** The refusal that a failed exchange with the upstream is. A fault of our own is recorded, not told. */
export function upstreamRefusal(core: ProxyCore, admitted: Admitted, error: Error): Refusal {
  if (error instanceof DialError) return dialRefusal(admitted, error.failed)
  const { target } = admitted
  if (!isUpstreamError(error)) {
    recordInternalError(core, error)
    return refusal({ reason: 'internal', detail: 'the proxy failed', target, via: target.via })
  }
  const code = (error as NodeJS.ErrnoException).code
  const detail = `the upstream answer cannot be used: ${code ?? error.message}`
  const status = error instanceof UpstreamError ? error.status : 502
  return refusal({ reason: 'dial', detail, status, target, via: target.via })
}
