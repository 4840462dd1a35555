import type { IncomingMessage, ServerResponse } from 'node:http'
import { isRefusal, type ProxyCore } from './core.ts'
import {
  admitForward,
  exchange,
  type ForwardContext,
  refuseForward,
  serveForward,
} from './forward.ts'
import { endToEndFields, hasToken } from './headers.ts'
import { Relay } from './relay.ts'
import { fieldValues } from './request-head.ts'
import { takeSlot, Tunnel } from './tunnel.ts'
import { bareHead } from './upstream-request.ts'

const SWITCH = ['Connection', 'Upgrade', 'Upgrade', 'websocket']

/**
 * A request with `Upgrade`. WebSocket (RFC 6455) is passed on and becomes a tunnel when the upstream agrees; any other
 * protocol is taken out, and the request served as if it had not asked.
 *
 *     client ──GET, Upgrade: websocket──▶ admit ──▶ slot ──▶ vetted dial ──▶ upstream
 *     client ◀──101──────────────────────────────────────────────────────── upstream, then bytes both ways
 */
export async function serveUpgrade(
  core: ProxyCore,
  request: IncomingMessage,
  response: ServerResponse,
  context: ForwardContext,
): Promise<void> {
  const { socket: client } = request
  if (!isWebSocket(request)) {
    serveForward(core, request, response, context)
    return
  }
  const admitted = admitForward(core, request, context)
  if (isRefusal(admitted)) {
    refuseForward(core, request, response, admitted)
    return
  }
  // Inside a tunnel the connection has its slot already.
  const slot = context.tunnel ? undefined : takeSlot(core, client, admitted)
  const full = slot instanceof Promise ? await slot : slot
  if (!client.writable) return
  if (full) {
    refuseForward(core, request, response, full)
    return
  }
  exchange(core, request, response, {
    admitted,
    context,
    mayRetry: true,
    hopFields: SWITCH,
    onSwitch(message, upstream, upstreamHead) {
      if (client.destroyed || !hasToken(fieldValues(message, 'upgrade'), 'websocket')) return false
      response.detachSocket(client)
      // Inside a tunnel the connection has its books already.
      const tunnel = context.tunnel
        ? new Relay(client, upstream, core.limits.tunnelIdleMs, () => undefined)
        : new Tunnel(core, client, upstream, admitted)
      const fields = [...endToEndFields(message.rawHeaders, ['content-length']), ...SWITCH]
      client.write(bareHead(101, message.statusMessage ?? '', fields), 'latin1')
      if (upstreamHead.length > 0) client.write(upstreamHead)
      tunnel.carry()
      return true
    },
  })
}

function isWebSocket(request: IncomingMessage): boolean {
  const protocols = fieldValues(request, 'upgrade').join().toLowerCase()
  return request.method === 'GET' && request.httpVersion === '1.1' && protocols === 'websocket'
}
