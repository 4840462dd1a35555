import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { isRefusal, type ProxyCore, recordAllowed } from './core.ts'
import {
  admitForward,
  detachedResponse,
  type ForwardContext,
  refuseForward,
  serveForward,
  UpstreamError,
  upstreamRefusal,
} from './forward.ts'
import { endToEndFields, fieldPairs, hasToken } from './headers.ts'
import { pump, tieSockets } from './relay.ts'
import { fieldValues } from './request-head.ts'
import { logTunnel } from './tunnel.ts'
import {
  isFinalStatus,
  relayInterim,
  relayResponse,
  safePhrase,
  startUpstream,
} from './upstream-request.ts'

/**
 * A request with `Upgrade`. WebSocket (RFC 6455) is passed on and becomes a tunnel when the upstream agrees; any other
 * protocol is taken out, and the request served as if it had not asked.
 *
 *     client ──GET, Upgrade: websocket──▶ admit ──▶ vetted dial ──▶ upstream
 *     client ◀──101──────────────────────────────────────────────── upstream, then bytes both ways
 */
export function serveUpgrade(
  core: ProxyCore,
  request: IncomingMessage,
  client: Socket,
  head: Buffer,
  context: ForwardContext,
): void {
  const isWebSocket =
    request.method === 'GET' &&
    request.httpVersion === '1.1' &&
    fieldValues(request, 'upgrade').join().toLowerCase() === 'websocket'
  const response = detachedResponse(request, client)
  if (!isWebSocket) {
    serveForward(core, request, response, context)
    return
  }
  const admitted = admitForward(core, request, context)
  if (isRefusal(admitted)) {
    refuseForward(core, request, response, admitted)
    return
  }
  const abort = new AbortController()
  const upstream = startUpstream(core, request, admitted, {
    agent: context.agent,
    dialSignal: abort.signal,
    hopFields: ['Connection', 'Upgrade', 'Upgrade', 'websocket'],
  })
  const stop = () => {
    abort.abort()
    upstream.destroy()
  }
  client.once('close', stop)
  const fail = (error: Error) => {
    client.removeListener('close', stop)
    if (!client.destroyed)
      refuseForward(core, request, response, upstreamRefusal(core, admitted, error))
  }
  upstream.on('error', fail)
  upstream.on('information', (interim) => relayInterim(response, request, interim))
  upstream.once('socket', (socket) => recordAllowed(core, admitted, socket.remoteAddress))
  upstream.once('response', (message) => {
    if (isFinalStatus(message.statusCode)) relayResponse(message, request, response, core.pseudonym)
    else upstream.destroy(new UpstreamError(`its status ${message.statusCode} is none`))
  })
  upstream.once('upgrade', (message, upstreamSocket: Socket, upstreamHead) => {
    client.removeListener('close', stop)
    if (client.destroyed || !hasToken(fieldValues(message, 'upgrade'), 'websocket')) {
      upstreamSocket.destroy()
      fail(new UpstreamError('it switched to another protocol'))
      return
    }
    response.detachSocket(client)
    const pair = tieSockets(client, upstreamSocket, core.limits.tunnelIdleMs)
    const log = logTunnel(core, { client, upstream: upstreamSocket, admitted, pair })
    client.write(switchingHead(message), 'latin1')
    if (upstreamHead.length > 0) client.write(upstreamHead)
    if (head.length > 0) upstreamSocket.write(head)
    pump(client, upstreamSocket)
    pump(upstreamSocket, client)
    void pair.closed.then((cause) => log.finish(cause))
  })
  upstream.end()
}

function switchingHead(message: IncomingMessage): string {
  const fields = [
    ...endToEndFields(message.rawHeaders),
    'Connection',
    'Upgrade',
    'Upgrade',
    'websocket',
  ]
  const lines = [...fieldPairs(fields)].map(([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 101 ${safePhrase(message.statusMessage ?? 'Switching Protocols')}\r\n${lines.join('')}\r\n`
}
