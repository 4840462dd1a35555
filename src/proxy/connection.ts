import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Target } from '../policy/target.ts'
import { CLIENT, type Client, type ClientSocket, isIdle, newClient } from './client-connection.ts'
import { headProblem, otherProtocolOf } from './no-request.ts'
import { type ProxyCore, recordInternalError, recordRefusal } from './core.ts'
import { detachedResponse, type ForwardContext, serveForward } from './forward.ts'
import { type ConnectHead, readPlainConnect } from './connect-head.ts'
import { spareConnections } from './limits.ts'
import { takeBytes } from './pooled-socket.ts'
import { Registry } from './registry.ts'
import { type Refusal, refusal, refuseOnSocket } from './refuse.ts'
import { boundHalfClosed, resetSocket } from './relay.ts'
import { refuseSocks, serveSocks } from './serve-socks.ts'
import { SOCKS_VERSION } from './socks.ts'
import { giveTo } from './socket-owner.ts'
import { keepAlive } from './sockets.ts'
import { serveConnect, type ServeHttp } from './tunnel.ts'
import { type Destination, serveTransparent } from './serve-transparent.ts'
import { serveUpgrade } from './upgrade.ts'
import { VettedAgent } from './upstream-pool.ts'

/** How long a client connection may wait for its next request, in milliseconds. */
const CLIENT_IDLE_MS = 60_000
/** Clients beyond the limit that may take their time to read their refusal. */
const LINGERING_SURPLUS = 16
/** Requests that a client may send ahead before its connection is read no further. */
const MAX_AHEAD = 16

/** How a client came that no request was read from. */
const VIA = { http: 'connect', socks: 'socks', nothing: 'transparent' } as const

/** Serves client connections, from the first byte to the hand-over to `tunnel`, `forward` or `upgrade`. */
export class ConnectionServer {
  readonly #core: ProxyCore
  readonly #http: Server
  readonly #spare = spareConnections()
  readonly #clients = new Registry<Client>()
  #agent: VettedAgent

  constructor(core: ProxyCore) {
    this.#core = core
    this.#agent = new VettedAgent(core)
    this.#http = this.#createHttpServer()
  }

  /** Open client connections. */
  get size(): number {
    return this.#clients.size
  }

  /**
   * Takes over a connection, and looks at its first byte; what is no HTTP and no SOCKS is refused.
   *
   * @param destination where a client connected to that knows of no proxy: it is served without a word
   */
  accept(socket: ClientSocket, destination?: Destination): void {
    giveTo(socket, undefined)
    socket.allowHalfOpen = true
    socket.setNoDelay(true)
    const { limits, isDraining } = this.#core
    const most = limits.maxTunnels + this.#spare
    const isFull = this.#clients.size >= most
    const client = newClient(socket, this)
    if (destination !== undefined) client.speaks = 'nothing'
    socket[CLIENT] = client
    this.#clients.add(client)
    socket.on('close', onClose)
    socket.on('end', onEnd)
    if (isDraining) this.#refuseAtOnce(socket, 'draining', 'the proxy is shutting down')
    else if (isFull) {
      this.#refuseAtOnce(socket, 'limit', 'too many connections are open')
      // A refused client may take its time to go, but not so many of them that descriptors run out.
      if (this.#clients.size > most + LINGERING_SURPLUS) socket.destroySoon()
    } else if (destination === undefined) this.#waitForFirstByte(socket, client)
    else {
      client.isHandedOver = true
      const serve = () => serveTransparent(this.#core, socket, destination, this.#serveHttp)
      this.#guard(socket, serve)
    }
  }

  /** Lets go of a client whose connection has closed. */
  forget(client: Client): void {
    this.#clients.delete(client)
    this.#core.slots.free(client.socket)
  }

  /** Makes the limits of a new policy generation hold, and its own connections carry later requests. */
  renew(): void {
    const old = this.#agent
    this.#agent = new VettedAgent(this.#core)
    old.destroyFree()
    const { maxHeadBytes: maxHeaderSize, headTimeoutMs: headersTimeout } = this.#core.limits
    Object.assign(this.#http, { maxHeaderSize, headersTimeout })
  }

  /** Has the clients asked from now on whether they are there: those that are here. */
  keepAlive(): void {
    for (const client of this.#clients.all()) {
      if (!client.isKeptAlive) keepAlive(client.socket)
      client.isKeptAlive = true
    }
  }

  /** Ends the connections that wait for a request. One that has begun a head still gets an answer. */
  endIdle(): void {
    for (const client of this.#clients.all()) {
      if (isIdle(client)) client.socket.end()
    }
  }

  /** Ends every connection: who waits for an answer is told why, and an answer under way breaks off. */
  endAll(): void {
    for (const client of this.#clients.all()) {
      const { socket } = client
      if (isIdle(client) || !socket.writable) socket.destroy()
      else if (client.current?.headersSent) resetSocket(socket)
      else {
        client.isGivenUp = true
        this.#refuseAtOnce(socket, 'draining', 'the proxy is shutting down')
        socket.destroySoon()
      }
    }
    this.#agent.destroy()
    this.#http.close(() => undefined)
  }

  #waitForFirstByte(socket: Socket, client: Client): void {
    const { headTimeoutMs, maxHeadBytes } = this.#core.limits
    if (headTimeoutMs > 0) {
      const onTimeout = () => void this.#refuseHead(socket, 'no request came in time', 408)
      client.headTimer = setTimeout(onTimeout, headTimeoutMs)
    }
    takeBytes(socket, (bytes) => {
      clearTimeout(client.headTimer)
      client.headTimer = undefined
      const connect = readPlainConnect(bytes, maxHeadBytes)
      if (connect) this.#serveConnect(socket, client, connect, bytes.subarray(connect.length))
      else this.#serveOther(socket, client, bytes)
      return false
    })
  }

  /** The usual client: its first bytes are a whole CONNECT, and what may have come with it. */
  #serveConnect(socket: Socket, client: Client, { head }: ConnectHead, early: Buffer): void {
    if (early.length > 0) socket.unshift(Buffer.from(early))
    client.isHandedOver = true
    this.#guard(socket, () => serveConnect(this.#core, head, socket, this.#serveHttp))
  }

  /** Everybody else is a client of SOCKS, or Node's server's, if it is HTTP at all. */
  #serveOther(socket: Socket, client: Client, bytes: Buffer): void {
    if (bytes[0] === SOCKS_VERSION) {
      client.isHandedOver = true
      client.speaks = 'socks'
      const first = Buffer.from(bytes)
      const serve = () => serveSocks(this.#core, socket, first, this.#serveHttp)
      this.#guard(socket, serve)
      return
    }
    const otherProtocol = otherProtocolOf(bytes[0])
    if (otherProtocol !== undefined) {
      void this.#refuseHead(socket, otherProtocol, 400)
      return
    }
    socket.pause()
    socket.unshift(Buffer.from(bytes))
    this.#http.emit('connection', socket)
    socket.resume()
  }

  #createHttpServer(): Server {
    const { maxHeadBytes, headTimeoutMs } = this.#core.limits
    const server = createServer({
      insecureHTTPParser: false,
      requireHostHeader: false,
      maxHeaderSize: maxHeadBytes,
      headersTimeout: headTimeoutMs,
      requestTimeout: 0,
      keepAliveTimeout: CLIENT_IDLE_MS,
      connectionsCheckingInterval: Math.max(50, Math.min(1_000, headTimeoutMs / 4)),
    })
    server.maxHeadersCount = 0
    server.on('request', (request, response) => this.#serve(request, response))
    server.on('checkContinue', (request, response) => this.#serve(request, response))
    server.on('checkExpectation', (request, response) => this.#serve(request, response))
    server.on('connect', (request: IncomingMessage, socket: Socket, head: Buffer) => {
      this.#handOver(socket, head, async (client) => {
        if (client.tunnel) this.#refuseNested(socket, client.tunnel.target, request)
        else await serveConnect(this.#core, request, socket, this.#serveHttp)
      })
    })
    server.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
      this.#handOver(socket, head, async (client) => {
        client.current = detachedResponse(request, socket)
        await serveUpgrade(this.#core, request, client.current, this.#contextOf(client))
      })
    })
    server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
      if (error.code === 'ECONNRESET') socket.destroy()
      else void this.#refuseHead(socket, ...headProblem(error))
    })
    // A client that ends its side still waits for its answers.
    Object.assign(server, { httpAllowHalfOpen: true })
    // Node starts to enforce headersTimeout when a server listens. This one is handed its connections instead.
    server.emit('listening')
    return server
  }

  /** Serves the requests of a connection one after the other, however many came at once. */
  #serve(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request
    const client = this.#clientOf(socket)
    const { answered: before } = client
    client.latest = { request, response, before }
    client.answered = new Promise((resolve) => response.once('close', resolve))
    client.pending++
    if (client.pending > MAX_AHEAD) socket.pause()
    response.once('close', () => {
      client.current = undefined
      client.readBefore = socket.bytesRead
      client.pending--
      if (client.pending === MAX_AHEAD) socket.resume()
      if (this.#core.isDraining && client.pending === 0 && !client.isHandedOver) socket.end()
    })
    this.#guard(socket, async () => {
      await before
      if (socket.destroyed || (client.isGivenUp && !request.complete)) return
      client.current = response
      serveForward(this.#core, request, response, this.#contextOf(client))
    })
  }

  /** A connection that Node's server has let go of. Earlier requests on it are answered first. */
  #handOver(socket: Socket, head: Buffer, serve: (client: Client) => Promise<void>): void {
    // It has no listeners: an error must find one in the same tick. The bytes go back before an end can pass them.
    socket.on('error', () => undefined)
    if (head.length > 0) socket.unshift(head)
    const client = this.#clientOf(socket)
    client.isHandedOver = true
    this.#guard(socket, async () => {
      await client.answered
      if (!socket.destroyed) await serve(client)
    })
  }

  /** A client that speaks HTTP in its tunnel: the same server reads it, the tunnel's name is the only Host. */
  readonly #serveHttp: ServeHttp = (socket, admitted, upstream) => {
    const client = this.#clientOf(socket)
    // A policy that came since the dial has not vetted this connection.
    if (admitted.generation !== this.#core.generation) upstream.destroy()
    const tunnel = { target: admitted.target, agent: new VettedAgent(this.#core, upstream) }
    client.tunnel = tunnel
    client.isHandedOver = false
    client.speaks = 'http'
    client.readBefore = 0
    socket.once('close', () => tunnel.agent.destroy())
    this.#http.emit('connection', socket)
    socket.resume()
  }

  #refuseNested(socket: Socket, target: Target, request: IncomingMessage): void {
    const detail = 'bad request: CONNECT inside a tunnel'
    const refused = refusal({ reason: 'bad-target', detail, target, via: target.via })
    recordRefusal(this.#core, refused)
    refuseOnSocket(socket, refused, request.headers.accept)
  }

  #contextOf({ tunnel }: Client): ForwardContext {
    if (tunnel === undefined) return { agent: this.#agent, tunnel: undefined }
    if (tunnel.agent.generation !== this.#core.generation) {
      tunnel.agent.destroy()
      tunnel.agent = new VettedAgent(this.#core)
    }
    return { agent: tunnel.agent, tunnel: tunnel.target }
  }

  #clientOf(socket: ClientSocket): Client {
    return socket[CLIENT] ?? newClient(socket, this)
  }

  /** The one place where our own faults end: the request is refused, the fault recorded, the socket closed. */
  #guard(socket: Socket, serve: () => Promise<void>): void {
    const fail = (error: unknown) => {
      recordInternalError(this.#core, error)
      this.#core.counters.denied.internal = (this.#core.counters.denied.internal ?? 0) + 1
      if (this.#clientOf(socket).current?.headersSent) {
        resetSocket(socket)
        return
      }
      const detail = 'the proxy failed; the request was not let through'
      this.#answer(socket, 'internal', detail)
    }
    try {
      serve().catch(fail)
    } catch (error) {
      fail(error)
    }
  }

  #refuseAtOnce(socket: Socket, reason: 'draining' | 'limit', detail: string): void {
    recordRefusal(this.#core, this.#answer(socket, reason, detail))
  }

  /** Refuses a client that no request was read from, in the protocol that it speaks. */
  #answer(socket: Socket, reason: 'draining' | 'limit' | 'internal', detail: string): Refusal {
    const { speaks } = this.#clientOf(socket)
    const refused = refusal({ reason, detail, target: undefined, via: VIA[speaks] })
    if (speaks === 'socks') refuseSocks(socket)
    else if (speaks === 'nothing') resetSocket(socket)
    else refuseOnSocket(socket, refused)
    return refused
  }

  /**
   * Answers what is no readable request, once, when what was read before it is answered. A fault in a body that is
   * being passed on already can only break the exchange off.
   */
  async #refuseHead(socket: Socket, why: string, status: number): Promise<void> {
    const client = this.#clientOf(socket)
    if (client.isGivenUp) return
    client.isGivenUp = true
    const broken = client.latest?.request.complete === false ? client.latest : undefined
    await (broken ? broken.before : client.answered)
    if (!socket.writable) return
    if (broken?.response.headersSent) {
      resetSocket(socket)
      return
    }
    const via = client.tunnel ? ('connect' as const) : ('forward' as const)
    const refused = refusal({
      reason: 'bad-target',
      detail: `bad request: ${why}`,
      status,
      target: undefined,
      via,
    })
    recordRefusal(this.#core, refused)
    refuseOnSocket(socket, refused)
  }
}

// Functions for all clients: one of its own for each would be a part of what an open tunnel weighs.

function onClose(this: ClientSocket): void {
  const client = this[CLIENT]
  if (client === undefined) return
  clearTimeout(client.headTimer)
  this[CLIENT] = undefined
  client.keeper.forget(client)
}

function onEnd(this: ClientSocket): void {
  const client = this[CLIENT]
  clearTimeout(client?.headTimer)
  if (this.bytesRead === 0) this.end()
  else if (client && (client.pending > 0 || client.current !== undefined)) boundHalfClosed(this)
}
