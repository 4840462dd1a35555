import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Target } from '../policy/target.ts'
import { type Admitted, type ProxyCore, recordInternalError, recordRefusal } from './core.ts'
import { type ForwardContext, serveForward } from './forward.ts'
import { closeWithin, refusal, refuseOnResponse, refuseOnSocket } from './refuse.ts'
import { serveConnect } from './tunnel.ts'
import { serveUpgrade } from './upgrade.ts'
import { VettedAgent } from './upstream-pool.ts'

const KEEP_ALIVE_PROBE_MS = 30_000
/** How long a client connection may wait for its next request, in milliseconds. */
const CLIENT_IDLE_MS = 60_000
/** Client connections without a tunnel that are served besides the tunnels. */
const SPARE_CONNECTIONS = 256

/** What is known about a client connection. */
interface Client {
  /** Requests that are not answered yet. */
  pending: number
  /** Called when the last one is. */
  onIdle: (() => void) | undefined
  /** The tunnel that the connection is, for clients that speak HTTP inside it. */
  tunnel: { readonly target: Target; readonly agent: VettedAgent } | undefined
}

/** Serves client connections, from the first byte to the hand-over to `tunnel`, `forward` or `upgrade`. */
export class ConnectionServer {
  readonly #core: ProxyCore
  readonly #http: Server
  readonly #clients = new Map<Socket, Client>()
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

  /** Takes over a connection. `connection` looks at its first byte; what is no HTTP is refused. */
  accept(socket: Socket): void {
    socket.on('error', () => undefined)
    socket.allowHalfOpen = true
    socket.setNoDelay(true)
    socket.setKeepAlive(true, KEEP_ALIVE_PROBE_MS)
    const { limits, isDraining } = this.#core
    const isFull = this.#clients.size >= limits.maxTunnels + SPARE_CONNECTIONS
    this.#clients.set(socket, { pending: 0, onIdle: undefined, tunnel: undefined })
    socket.once('close', () => this.#clients.delete(socket))
    if (isFull || isDraining) {
      const reason = isDraining ? ('draining' as const) : ('limit' as const)
      const detail = isDraining ? 'the proxy is shutting down' : 'too many connections are open'
      const refused = refusal({ reason, detail, target: undefined, via: 'connect' })
      recordRefusal(this.#core, refused)
      refuseOnSocket(socket, refused)
      return
    }
    this.#waitForFirstByte(socket)
  }

  /** Makes later requests go over connections of the new policy generation. */
  renewAgent(): void {
    const old = this.#agent
    this.#agent = new VettedAgent(this.#core)
    old.destroyFree()
  }

  /** Ends connections that wait for a request; `all` ends every one. */
  closeConnections(all: boolean): void {
    for (const [socket, client] of this.#clients) {
      if (all) socket.destroy()
      else if (client.pending === 0 && client.tunnel === undefined) socket.end()
    }
    if (!all) return
    this.#agent.destroy()
    this.#http.close(() => undefined)
  }

  #waitForFirstByte(socket: Socket): void {
    const { headTimeoutMs } = this.#core.limits
    const timer =
      headTimeoutMs > 0
        ? setTimeout(() => this.#refuseHead(socket, 'no request came in time', 408), headTimeoutMs)
        : undefined
    socket.once('close', () => clearTimeout(timer))
    socket.once('end', () => {
      clearTimeout(timer)
      if (!this.#isServed(socket)) socket.end()
    })
    socket.once('data', (chunk: Buffer) => {
      clearTimeout(timer)
      const otherProtocol = otherProtocolOf(chunk[0])
      if (otherProtocol !== undefined) {
        this.#refuseHead(socket, otherProtocol, 400)
        return
      }
      socket.pause()
      socket.unshift(chunk)
      this.#http.emit('connection', socket)
      socket.resume()
    })
  }

  #isServed(socket: Socket): boolean {
    return socket.bytesRead > 0
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
      this.#hold(socket)
      this.#guard(socket, async () => {
        await this.#whenIdle(socket)
        if (this.#clientOf(socket).tunnel) this.#refuseNested(socket, request)
        else
          await serveConnect(this.#core, request, socket, head, (...tunnel) =>
            this.#serveTunnel(...tunnel),
          )
      })
    })
    server.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
      this.#hold(socket)
      this.#guard(socket, async () => {
        await this.#whenIdle(socket)
        const context = this.#contextOf(socket)
        this.#clientOf(socket).pending++
        serveUpgrade(this.#core, request, socket, head, context)
      })
    })
    server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
      if (error.code === 'ECONNRESET' || !socket.writable) socket.destroy()
      else this.#refuseHead(socket, ...headProblem(error))
    })
    // Node starts to enforce headersTimeout when a server listens. This one is handed its connections instead.
    server.emit('listening')
    return server
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request
    const client = this.#clientOf(socket)
    client.pending++
    response.once('close', () => {
      client.pending--
      if (client.pending > 0) return
      client.onIdle?.()
      if (this.#core.isDraining) socket.end()
    })
    this.#guard(socket, async () => {
      if (
        request.headers.expect !== undefined &&
        request.headers.expect.toLowerCase() !== '100-continue'
      ) {
        const detail = 'the expectation cannot be met'
        const refused = refusal({
          reason: 'bad-target',
          detail,
          status: 417,
          target: undefined,
          via: 'forward',
        })
        recordRefusal(this.#core, refused)
        refuseOnResponse(request, response, refused)
        return
      }
      serveForward(this.#core, request, response, this.#contextOf(socket))
    })
  }

  /** A client that speaks HTTP in its tunnel: the same server reads it, the tunnel's name is the only Host. */
  #serveTunnel(socket: Socket, admitted: Admitted, upstream: Socket): void {
    const agent = new VettedAgent(this.#core, upstream)
    this.#clientOf(socket).tunnel = { target: admitted.target, agent }
    socket.once('close', () => agent.destroy())
    this.#http.emit('connection', socket)
    socket.resume()
  }

  #refuseNested(socket: Socket, request: IncomingMessage): void {
    const target = this.#clientOf(socket).tunnel?.target
    const detail = 'bad request: CONNECT inside a tunnel'
    const refused = refusal({ reason: 'bad-target', detail, target, via: 'connect' })
    recordRefusal(this.#core, refused)
    refuseOnSocket(socket, refused, request.headers.accept)
  }

  #contextOf(socket: Socket): ForwardContext {
    const { tunnel } = this.#clientOf(socket)
    return tunnel
      ? { agent: tunnel.agent, tunnel: tunnel.target }
      : { agent: this.#agent, tunnel: undefined }
  }

  #clientOf(socket: Socket): Client {
    return this.#clients.get(socket) ?? { pending: 0, onIdle: undefined, tunnel: undefined }
  }

  /** A socket that Node's server has let go of has no listeners: an error must find one in the same tick. */
  #hold(socket: Socket): void {
    socket.on('error', () => undefined)
  }

  /** Waits until the answers to earlier requests on the same connection are out. */
  #whenIdle(socket: Socket): Promise<void> {
    const client = this.#clientOf(socket)
    if (client.pending === 0) return Promise.resolve()
    return new Promise((resolve) => (client.onIdle = resolve))
  }

  /** The one place where our own faults end: the request is refused, the fault recorded, the socket closed. */
  #guard(socket: Socket, serve: () => Promise<void>): void {
    serve().catch((error: unknown) => {
      recordInternalError(this.#core, error)
      this.#core.counters.denied.internal = (this.#core.counters.denied.internal ?? 0) + 1
      const detail = 'the proxy failed; the request was not let through'
      refuseOnSocket(
        socket,
        refusal({ reason: 'internal', detail, target: undefined, via: 'connect' }),
      )
    })
  }

  /** Answers what is no readable request. In the middle of an exchange nothing can be said any more. */
  #refuseHead(socket: Socket, why: string, status: number): void {
    const client = this.#clientOf(socket)
    if (client.pending > 0) {
      socket.destroy()
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
    closeWithin(socket, 1_000)
  }
}

/** What a first byte says that cannot begin an HTTP request; undefined if it can. */
function otherProtocolOf(byte: number | undefined): string | undefined {
  if (byte === 0x16)
    return 'this is TLS; the proxy itself is spoken to in plain HTTP (http:// in the proxy URL)'
  return byte === 0x04 || byte === 0x05 ? 'SOCKS is not spoken here; use HTTP CONNECT' : undefined
}

function headProblem(error: NodeJS.ErrnoException): [why: string, status: number] {
  switch (error.code) {
    case 'HPE_HEADER_OVERFLOW':
      return ['the head is too long', 431]
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return ['the head did not come in time', 408]
    default:
      return [`the head cannot be read (${error.code ?? 'error'})`, 400]
  }
}
