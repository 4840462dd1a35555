import type { Socket } from 'node:net'
import type { EventData } from '../events/event.ts'
import { classifyIp } from '../policy/address-kind.ts'
import type { Target } from '../policy/target.ts'
import {
  admit,
  type Admitted,
  isRefusal,
  type LiveTunnel,
  type ProxyCore,
  recordAllowed,
  recordInternalError,
  recordRefusal,
} from './core.ts'
import { type DialResult, DialWaiter } from './dial.ts'
import { giveTo } from './socket-owner.ts'
import { type FlightNote, type FlightVerdict, judgeFlight, tlsAlert } from './first-flight.ts'
import { type Opening, OpeningReader } from './opening.ts'
import { closeWithin, describeHost, type Refusal, refusal, refuseOnSocket } from './refuse.ts'
import { parseSystemAddress } from './local-addresses.ts'
import { Relay, type RelayCause, resetSocket } from './relay.ts'
import { fieldValues, readConnect, type RequestHead } from './request-head.ts'
import type { NoSlot } from './slots.ts'
import { keepAlive } from './sockets.ts'

const ESTABLISHED = Buffer.from('HTTP/1.1 200 Connection Established\r\n\r\n')
const REFUSED_TUNNEL_LINGER_MS = 1_000

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
export function serveConnect(
  core: ProxyCore,
  request: RequestHead,
  client: Socket,
  serveHttp: ServeHttp,
): Promise<void> {
  const admitted = admit(core, request, {
    via: 'connect',
    isTrusted: false,
    read: () => readConnect(request),
  })
  return openTunnel(core, client, admitted, {
    serveHttp,
    establish: () => void client.write(ESTABLISHED),
    refuse(refused) {
      recordRefusal(core, refused)
      refuseOnSocket(client, refused, fieldValues(request, 'accept').join())
    },
  })
}

/** How a client is told what came of its request. */
interface TunnelCalls {
  readonly serveHttp: ServeHttp
  /** The tunnel is there: what comes next is its own. */
  readonly establish: () => void
  readonly refuse: (refused: Refusal) => void
}

/** A tunnel for a request that was read, however the client speaks to the proxy. */
export async function openTunnel(
  core: ProxyCore,
  client: Socket,
  admitted: Admitted | Refusal,
  { serveHttp, establish, refuse }: TunnelCalls,
): Promise<void> {
  if (isRefusal(admitted)) return refuse(admitted)

  const slot = takeSlot(core, client, admitted)
  const full = slot instanceof Promise ? await slot : slot
  if (!client.writable) return
  if (full) return refuse(full)

  // An end of the client's side with no byte for the tunnel looks the same as going, and Node would not notice a reset behind
  // it: the dial ends then as well, and the client gets a whole refusal.
  const waiter = new DialWaiter()
  giveTo(client, waiter)
  if (client.readableEnded) waiter.leave()
  const { policy, generation } = core
  const { target, decision } = admitted
  const dialled = await core.dialer.dial({ target, decision, policy, generation, waiter })
  giveTo(client, undefined)
  if (!client.writable) {
    if (dialled.kind === 'connected') dialled.socket.destroy()
    return
  }
  if (dialled.kind === 'failed') {
    core.slots.free(client)
    return refuse(dialRefusal(admitted, dialled))
  }
  recordAllowed(core, admitted, dialled.address)

  establish()
  const tunnel = new Tunnel(core, client, dialled.socket, admitted)
  if (admitted.target.host.kind === 'ip') tunnel.carry()
  else tunnel.begin(serveHttp)
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

/**
 * Counts one more tunnel, until it is freed or its client's connection closes; a refusal if there may be no more. A promise
 * only where another process has to be asked.
 */
export function takeSlot(
  core: ProxyCore,
  client: Socket,
  { target }: Admitted,
): Refusal | undefined | Promise<Refusal | undefined> {
  const none = core.slots.take(client, core.limits)
  if (none instanceof Promise) return none.then((late) => late && fullRefusal(late, target))
  return none && fullRefusal(none, target)
}

function fullRefusal(none: NoSlot, target: Target): Refusal {
  return refusal({ reason: 'limit', ...none, target, via: target.via })
}

/** One tunnel from its 200 to its end: what a drain may end, and the event when it has ended. */
export class Tunnel implements LiveTunnel {
  place = -1
  readonly #core: ProxyCore
  readonly #client: Socket
  readonly #upstream: Socket
  readonly #admitted: Admitted
  readonly #relay: Relay
  readonly #startedAt: number
  readonly #upBefore: number
  readonly #downBefore: number
  readonly #clientBefore: number
  #note: FlightNote = {}
  #cause: RelayCause = 'end'
  #isServed = false
  #isKeptAlive = false

  constructor(core: ProxyCore, client: Socket, upstream: Socket, admitted: Admitted) {
    this.#core = core
    this.#client = client
    this.#upstream = upstream
    this.#admitted = admitted
    this.#startedAt = core.now()
    this.#upBefore = upstream.bytesWritten
    this.#downBefore = upstream.bytesRead
    this.#clientBefore = client.bytesWritten
    this.#relay = new Relay(client, upstream, core.limits.tunnelIdleMs, this.#onClosed)
    core.tunnels.add(this)
  }

  /** Carries bytes both ways, whatever they are. */
  carry(): void {
    this.#relay.carry()
  }

  /** Carries bytes down at once, and up when the first of them have been judged. */
  begin(serveHttp: ServeHttp): void {
    this.#relay.down.start()
    const { firstFlightTimeoutMs } = this.#core.limits
    const reader = new OpeningReader(this.#client, firstFlightTimeoutMs, (opening) => {
      this.#relay.whenClientGone(undefined)
      try {
        this.#judge(opening, serveHttp)
      } catch (error) {
        // Nothing can be said in the middle of a tunnel.
        this.#relay.destroy('error')
        recordInternalError(this.#core, error)
        const { denied } = this.#core.counters
        denied.internal = (denied.internal ?? 0) + 1
      }
    })
    this.#relay.whenClientGone(() => reader.end())
    reader.start()
  }

  keepAlive(): void {
    if (!this.#isKeptAlive) keepAlive(this.#upstream)
    this.#isKeptAlive = true
    if (!this.#isServed) this.#relay.endIfLost()
  }

  destroy(cause: RelayCause): void {
    this.#cause = cause
    if (this.#isServed) resetSocket(this.#client)
    else this.#relay.destroy(cause)
  }

  #judge({ bytes, flight }: Opening, serveHttp: ServeHttp): void {
    if (this.#client.destroyed) return
    const { target } = this.#admitted
    const verdict: FlightVerdict =
      bytes.length === 0
        ? { kind: 'pass', note: {} }
        : judgeFlight(this.#core.policy, target, flight, this.#core.now())
    if (verdict.kind === 'pass') {
      this.#note = verdict.note
      if (bytes.length > 0) this.#upstream.write(bytes)
      this.#relay.up.start()
    } else if (verdict.kind === 'refuse') this.#refuse(verdict)
    else if (this.#upstream.bytesRead > 0) this.#refuse(SPEAKS_FIRST)
    else this.#serve(bytes, serveHttp)
  }

  /** Hands the client over to the server of HTTP: the tunnel lasts as long as its connection. */
  #serve(bytes: Buffer, serveHttp: ServeHttp): void {
    const client = this.#client
    this.#isServed = true
    this.#relay.release()
    client.unshift(bytes)
    const read = client.bytesRead - client.readableLength
    client.once('close', () => {
      const up = client.bytesRead - read
      this.#record(this.#cause, up, client.bytesWritten - this.#clientBefore)
    })
    serveHttp(client, this.#admitted, this.#upstream)
  }

  #refuse({ reason, why, note, alert }: Extract<FlightVerdict, { kind: 'refuse' }>): void {
    this.#relay.release()
    this.#upstream.destroy()
    this.#core.tunnels.delete(this)
    const { target } = this.#admitted
    const { via } = target
    const sni = note.sni !== undefined && { sni: note.sni }
    recordRefusal(this.#core, refusal({ reason, detail: why, target, via, ...sni }))
    if (alert !== undefined) this.#client.write(tlsAlert(alert))
    this.#client.end()
    closeWithin(this.#client, REFUSED_TUNNEL_LINGER_MS)
  }

  readonly #onClosed = (cause: RelayCause) => {
    const { bytesWritten, bytesRead } = this.#upstream
    this.#record(cause, bytesWritten - this.#upBefore, bytesRead - this.#downBefore)
  }

  #record(cause: RelayCause, bytesUp: number, bytesDown: number): void {
    const { tunnels, counters, now, emit } = this.#core
    const { target, generation } = this.#admitted
    tunnels.delete(this)
    counters.bytesUp += bytesUp
    counters.bytesDown += bytesDown
    const { host, port } = describeHost(target)
    const data: EventData<'tunnel_closed'> = {
      host,
      port,
      via: target.via,
      generation,
      bytes_up: bytesUp,
      bytes_down: bytesDown,
      ms: Math.max(0, Math.round(now() - this.#startedAt)),
      cause,
    }
    emit({ type: 'tunnel_closed', data: Object.assign(data, this.#note) })
  }
}
