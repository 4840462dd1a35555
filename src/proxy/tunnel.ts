import type { Socket } from 'node:net'
import { classifyIp } from '../policy/address-kind.ts'
import {
  admit,
  type Admitted,
  clientKey,
  isRefusal,
  type LiveTunnel,
  type ProxyCore,
  recordAllowed,
  recordRefusal,
} from './core.ts'
import { type DialResult, DialWaiter } from './dial.ts'
import {
  type Flight,
  type FlightNote,
  type FlightVerdict,
  judgeFlight,
  MAX_FLIGHT_BYTES,
  readFlight,
  tlsAlert,
} from './first-flight.ts'
import { takeBytes } from './pooled-socket.ts'
import { closeWithin, describeHost, type Refusal, refusal, refuseOnSocket } from './refuse.ts'
import { parseSystemAddress } from './local-addresses.ts'
import { pump, type RelayCause, resetSocket, type SocketPair, tieSockets } from './relay.ts'
import { fieldValues, readConnect, type RequestHead } from './request-head.ts'

const ESTABLISHED = Buffer.from('HTTP/1.1 200 Connection Established\r\n\r\n')
const NOTHING = Buffer.alloc(0)
const REFUSED_TUNNEL_LINGER_MS = 1_000
const LINE_END = Buffer.from('\n')

/** HTTP can only be served here if nobody has been answered yet. */
const SPEAKS_FIRST: Extract<FlightVerdict, { kind: 'refuse' }> = {
  kind: 'refuse',
  reason: 'not-tls',
  why: 'HTTP to a server that speaks first',
  note: {},
  alert: undefined,
}

/** Serves a client that speaks HTTP inside its tunnel; `upstream` is a connection that is open already. */
export type ServeHttp = (client: Socket, admitted: Admitted, upstream: Socket) => void

/**
 * One CONNECT, from its head to the end of the tunnel:
 *
 *     client ──CONNECT──▶ admit ──▶ slot ──▶ dial (resolve, vet, connect) ──▶ 200 ──▶ first flight ──▶ relay
 *                           │         │        │                                          │
 *                           ▼         ▼        ▼                                          ▼
 *                          4xx      503/429  403/50x                             alert, close, or HTTP served
 */
export async function serveConnect(
  core: ProxyCore,
  request: RequestHead,
  client: Socket,
  serveHttp: ServeHttp,
): Promise<void> {
  const refuse = (refused: Refusal) => {
    recordRefusal(core, refused)
    refuseOnSocket(client, refused, fieldValues(request, 'accept').join())
  }
  const admitted = admit(core, request, {
    via: 'connect',
    isTrusted: false,
    read: () => readConnect(request),
  })
  if (isRefusal(admitted)) return refuse(admitted)

  const slot = takeSlot(core, client, admitted)
  if ('reason' in slot) return refuse(slot)

  const dialled = await dialFor(core, client, admitted)
  if (!client.writable) {
    if (dialled.kind === 'connected') dialled.socket.destroy()
    return
  }
  if (dialled.kind === 'failed') {
    slot.free()
    return refuse(dialRefusal(admitted, dialled))
  }
  recordAllowed(core, admitted, dialled.address)

  client.write(ESTABLISHED)
  try {
    await runTunnel(core, client, dialled.socket, admitted, serveHttp)
  } catch (error) {
    // Nothing can be said in the middle of a tunnel.
    resetSocket(client)
    resetSocket(dialled.socket)
    throw error
  }
}

/**
 * A dial that ends when the client goes. An end of its side with no byte for the tunnel looks the same as going, and Node
 * would not notice a reset behind it: the dial ends then as well, and the client gets a whole refusal.
 */
async function dialFor(core: ProxyCore, client: Socket, admitted: Admitted): Promise<DialResult> {
  const waiter = new DialWaiter()
  const onGone = () => waiter.leave()
  client.once('close', onGone)
  client.once('end', onGone)
  if (client.readableEnded) onGone()
  const { policy, generation } = core
  const { target, decision } = admitted
  const result = await core.dialer.dial({
    target,
    decision,
    policy,
    generation,
    waiter,
  })
  client.removeListener('close', onGone)
  client.removeListener('end', onGone)
  return result
}

/** The refusal that a failed dial is. */
export function dialRefusal(
  admitted: Admitted,
  failed: Extract<DialResult, { kind: 'failed' }>,
): Refusal {
  const { reason, detail, timedOut, address } = failed
  const { target } = admitted
  const { host, port } = describeHost(target)
  // Only a private address has a rule by name that opens it, and the answer tells that rule.
  const ip = address === undefined ? undefined : parseSystemAddress(address)
  const opensByName = reason === 'special-address' && ip && classifyIp(ip).kind === 'private'
  return refusal({
    reason,
    detail: `${host}:${port}: ${detail}`,
    target,
    via: target.via,
    ...(timedOut && { status: 504 }),
    ...(address !== undefined && { address }),
    ...(opensByName && { decision: { verdict: 'deny', reason } as const }),
  })
}

/** Counts one more tunnel, until it is freed or its client's connection closes; a refusal if there may be no more. */
export function takeSlot(
  core: ProxyCore,
  client: Socket,
  admitted: Admitted,
): Refusal | { readonly free: () => void } {
  const { limits, clients } = core
  const key = clientKey(client)
  const total = core.openSlots
  const own = clients.get(key) ?? 0
  const refuse = (detail: string, status: number) =>
    refusal({ reason: 'limit', detail, status, target: admitted.target, via: admitted.target.via })
  if (limits.maxTunnelsPerClient > 0 && own >= limits.maxTunnelsPerClient) {
    return refuse(`this client has ${own} tunnels, the most it may have`, 429)
  }
  if (total >= limits.maxTunnels)
    return refuse(`${total} tunnels are open, the most there may be`, 503)
  clients.set(key, own + 1)
  core.openSlots++
  const free = () => {
    client.removeListener('close', free)
    core.openSlots--
    const left = (clients.get(key) ?? 1) - 1
    if (left > 0) clients.set(key, left)
    else clients.delete(key)
  }
  client.once('close', free)
  return { free }
}

async function runTunnel(
  core: ProxyCore,
  client: Socket,
  upstream: Socket,
  admitted: Admitted,
  serveHttp: ServeHttp,
): Promise<void> {
  const { target } = admitted
  const pair = tieSockets(client, upstream, core.limits.tunnelIdleMs)
  const log = logTunnel(core, { client, upstream, admitted, pair })
  const stopDown = pump(upstream, client)
  if (target.host.kind === 'ip') {
    pump(client, upstream)
    return log.finish(await pair.closed)
  }
  const opening = await readOpening(client, core.limits.firstFlightTimeoutMs)
  if (client.destroyed) return log.finish(await pair.closed)
  const verdict =
    opening.bytes.length === 0
      ? ({ kind: 'pass', note: {} } satisfies FlightVerdict)
      : judgeFlight(core.policy, target, opening.flight, core.now())
  switch (verdict.kind) {
    case 'pass':
      log.note(verdict.note)
      if (opening.bytes.length > 0) upstream.write(opening.bytes)
      pump(client, upstream)
      return log.finish(await pair.closed)
    case 'serve-http':
      if (upstream.bytesRead > 0) break
      pair.release()
      stopDown()
      client.unshift(opening.bytes)
      log.finishWith(client)
      return serveHttp(client, admitted, upstream)
    case 'refuse':
      break
  }
  pair.release()
  stopDown()
  upstream.destroy()
  log.drop()
  const refused: Extract<FlightVerdict, { kind: 'refuse' }> =
    verdict.kind === 'refuse' ? verdict : SPEAKS_FIRST
  recordRefusal(
    core,
    refusal({
      reason: refused.reason,
      detail: refused.why,
      target,
      via: 'connect',
      ...(refused.note.sni !== undefined && { sni: refused.note.sni }),
    }),
  )
  if (refused.alert !== undefined) client.write(tlsAlert(refused.alert))
  client.end()
  closeWithin(client, REFUSED_TUNNEL_LINGER_MS)
}

interface Opening {
  readonly bytes: Buffer
  readonly flight: Flight
}

/** Reads what a client sends first until it can be told what it is; the time runs from the first byte. */
function readOpening(client: Socket, timeoutMs: number): Promise<Opening> {
  return new Promise((resolve) => {
    let bytes = NOTHING
    let timer: NodeJS.Timeout | undefined
    let stop = () => {}
    const settle = (flight: Flight) => {
      clearTimeout(timer)
      client.removeListener('end', onEnd)
      client.removeListener('close', onEnd)
      resolve({ bytes, flight })
    }
    const unfinished = (): Flight => ({ kind: 'incomplete', tls: bytes[0] === 22 })
    // An end may finish a request line for a server that does not insist on its LF.
    const isLine = () => readFlight(Buffer.concat([bytes, LINE_END])).kind === 'http1'
    const onEnd = () => {
      stop()
      settle(bytes[0] === 22 || isLine() ? unfinished() : { kind: 'not-tls' })
    }
    const onTimeout = () => {
      stop()
      settle(unfinished())
    }
    if (client.readableEnded) {
      onEnd()
      return
    }
    client.on('end', onEnd)
    client.on('close', onEnd)
    stop = takeBytes(client, (more) => {
      bytes = Buffer.concat([bytes, more])
      const flight = readFlight(bytes.subarray(0, MAX_FLIGHT_BYTES))
      if (flight.kind !== 'more') settle(flight)
      else if (timeoutMs > 0) timer ??= setTimeout(onTimeout, timeoutMs)
      return flight.kind === 'more'
    })
  })
}

interface TunnelParts {
  readonly client: Socket
  readonly upstream: Socket
  readonly admitted: Admitted
  readonly pair: SocketPair
}

/** Keeps the books of one tunnel: what a drain may end, and the event when it has ended. */
export function logTunnel(core: ProxyCore, tunnel: TunnelParts) {
  const { client, upstream, admitted, pair } = tunnel
  const { target, generation } = admitted
  const startedAt = core.now()
  const written = client.bytesWritten
  const before = { up: upstream.bytesWritten, down: upstream.bytesRead }
  let note: FlightNote = {}
  let live: LiveTunnel = { destroy: (cause) => pair.destroy(cause) }
  core.tunnels.add(live)
  const record = (cause: RelayCause, bytesUp: number, bytesDown: number) => {
    core.tunnels.delete(live)
    core.counters.bytesUp += bytesUp
    core.counters.bytesDown += bytesDown
    const ms = Math.max(0, Math.round(core.now() - startedAt))
    core.emit({
      type: 'tunnel_closed',
      data: {
        ...describeHost(target),
        via: target.via,
        generation,
        bytes_up: bytesUp,
        bytes_down: bytesDown,
        ms,
        cause,
        ...note,
      },
    })
  }
  return {
    note(found: FlightNote) {
      note = found
    },
    finish(cause: RelayCause) {
      record(cause, upstream.bytesWritten - before.up, upstream.bytesRead - before.down)
    },
    /** Hands the client over: the tunnel lasts as long as its connection. */
    finishWith(socket: Socket) {
      const read = socket.bytesRead - socket.readableLength
      let cause: RelayCause = 'end'
      core.tunnels.delete(live)
      live = {
        destroy(found) {
          cause = found
          resetSocket(socket)
        },
      }
      core.tunnels.add(live)
      socket.once('close', () =>
        record(cause, socket.bytesRead - read, socket.bytesWritten - written),
      )
    },
    drop() {
      core.tunnels.delete(live)
    },
  }
}
