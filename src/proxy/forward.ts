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
import { DialWaiter } from './dial.ts'
import { fieldPairs, hasToken, isLoop, passableTrailers } from './headers.ts'
import { closeWithin, forgetRest, type Refusal, refusal, refuseOnResponse } from './refuse.ts'
import { announcesBody, fieldValues, hopsLeft, readForward, readTunnelled } from './request-head.ts'
import { dialRefusal } from './tunnel.ts'
import { DialError, type VettedAgent } from './upstream-pool.ts'
import {
  flushHead,
  relayInterim,
  relayResponse,
  startUpstream,
  whyUnusable,
} from './upstream-request.ts'

/** How a request came: over which pool it goes on, and for a request inside a tunnel, to where. */
export interface ForwardContext {
  readonly agent: VettedAgent
  readonly tunnel: Target | undefined
}

/** A pooled connection may close just as it is used again: asking once more is safe for these, without a body. */
const IDEMPOTENT = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE'])

/** Every check of a plain HTTP request. */
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
  const refuse = (detail: string, status = 400) =>
    refusal({ reason: 'bad-target', detail, status, target, via })
  if (isLoop(fieldValues(request, 'via'), core.pseudonym)) {
    const detail = 'the request has come through this proxy before'
    return refusal({ reason: 'loop', detail, target, via })
  }
  if (request.method === 'TRACE') return refuse('TRACE is not forwarded', 405)
  const { expect } = request.headers
  if (expect !== undefined && expect.toLowerCase() !== '100-continue') {
    return refuse('the expectation cannot be met', 417)
  }
  const isUpgrade = hasToken(fieldValues(request, 'connection'), 'upgrade')
  if (isUpgrade && fieldValues(request, 'upgrade').length > 0 && announcesBody(request)) {
    return refuse('bad request: a body together with Upgrade')
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
  if (isPing(core, request, context)) {
    response.writeHead(204, { 'Proxy-Status': 'iterion-egress' }).end()
    return
  }
  const admitted = admitForward(core, request, context)
  if (isRefusal(admitted)) refuseForward(core, request, response, admitted)
  else if (hopsLeft(request) === 0) response.writeHead(204).end()
  else exchange(core, request, response, { admitted, context, mayRetry: true })
}

/**
 * `OPTIONS *` with `Max-Forwards: 0` asks the proxy itself whether it serves (RFC 9110 7.6.2, 9.3.7). It names no host, so
 * there is nothing to decide and nothing to record. The token is asked for as ever.
 */
function isPing(core: ProxyCore, request: IncomingMessage, { tunnel }: ForwardContext): boolean {
  return (
    tunnel === undefined &&
    request.url === '*' &&
    hopsLeft(request) === 0 &&
    !announcesBody(request) &&
    !core.isDraining &&
    core.authenticator?.(fieldValues(request, 'proxy-authorization')) !== false
  )
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
    closeWithin(socket)
  })
  return response
}

interface Exchange {
  readonly admitted: Admitted
  readonly context: ForwardContext
  readonly mayRetry: boolean
  /** Fields of this hop for the upstream, as a flat list. */
  readonly hopFields?: readonly string[]
  /** Takes over both connections when the upstream switches protocols; false if it switched to a wrong one. */
  readonly onSwitch?: (message: IncomingMessage, upstream: Socket, head: Buffer) => boolean
}

/** Asks the upstream and passes its answer on. */
export function exchange(
  core: ProxyCore,
  request: IncomingMessage,
  response: ServerResponse,
  parts: Exchange,
): void {
  const { admitted, context, mayRetry, hopFields = [], onSwitch } = parts
  const { agent } = context
  const waiter = new DialWaiter()
  const upstream = startUpstream(core, request, admitted, {
    agent,
    dialWaiter: waiter,
    hopFields,
  })
  const stop = () => {
    waiter.leave()
    upstream.destroy()
  }
  response.once('close', stop)
  const hasBody = announcesBody(request)
  let answered = false
  let readBefore = 0
  const fail = (error: Error) => {
    response.removeListener('close', stop)
    // What breaks off behind the head of the answer is seen where the answer is passed on.
    if (answered || response.destroyed) return
    answered = true
    const isUntouched = upstream.reusedSocket && upstream.socket?.bytesRead === readBefore
    if (mayRetry && isUntouched && !hasBody && IDEMPOTENT.has(request.method ?? '')) {
      agent.discardFree(admitted)
      exchange(core, request, response, { ...parts, mayRetry: false })
      return
    }
    refuseForward(core, request, response, upstreamRefusal(core, admitted, error))
  }
  upstream.once('socket', (socket) => {
    readBefore = socket.bytesRead
    const isInTunnel = context.tunnel !== undefined
    if (mayRetry) recordAllowed(core, admitted, socket.remoteAddress, isInTunnel)
  })
  upstream.on('error', fail)
  upstream.on('information', (interim) => relayInterim(response, request, interim))
  upstream.once('upgrade', (message, socket: Socket, head) => {
    if (!answered && onSwitch?.(message, socket, head)) {
      answered = true
      return
    }
    socket.destroy()
    fail(new UpstreamError('it switched protocols without being asked'))
  })
  const endBody = () => {
    const trailers = passableTrailers(request.rawTrailers, request.rawHeaders)
    if (trailers.length > 0) upstream.addTrailers([...fieldPairs(trailers)])
    upstream.end()
  }
  const finish = () => {
    if (!hasBody || request.readableEnded) {
      response.end()
      return
    }
    // It has answered without waiting for the whole request: what is missing must not look complete to it.
    request.removeListener('end', endBody)
    upstream.destroy()
    forgetRest(request, () => response.end())
  }
  upstream.once('response', (message) => {
    const unusable = whyUnusable(message)
    if (answered || unusable !== undefined) {
      message.destroy()
      fail(new UpstreamError(unusable ?? 'it is late'))
      return
    }
    answered = true
    try {
      relayResponse(message, request, response, { pseudonym: core.pseudonym, finish })
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
  flushHead(upstream)
  request.pipe(upstream, { end: false })
  request.once('end', endBody)
  request.once('error', stop)
}

/** What the upstream did that makes its answer unusable. */
class UpstreamError extends Error {
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

/** The refusal that a failed exchange with the upstream is. A fault of our own is recorded, not told. */
function upstreamRefusal(core: ProxyCore, admitted: Admitted, error: Error): Refusal {
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
