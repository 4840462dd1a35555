import { once } from 'node:events'
import { createServer as createHttpServer, type RequestListener, type Server } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import type { IncomingMessage } from 'node:http'
import type { Test } from 'tap'
import type { Authority } from './authority.ts'

/** What an upstream does with a request. */
export interface Service {
  readonly request: RequestListener
  readonly upgrade?: (request: IncomingMessage, socket: Duplex) => void
}

/** A request that reached the upstream. */
export interface SeenRequest {
  readonly secure: boolean
  readonly host: string
  readonly method: string
  readonly url: string
}

/** One service on two ports of loopback, over TLS and in clear text. */
export interface Upstream {
  readonly tlsPort: number
  readonly plainPort: number
  readonly seen: readonly SeenRequest[]
  /** How many connections it has accepted, on either port. */
  readonly connections: () => number
}

/** Starts the upstream; it ends when `t` ends. */
export async function startUpstream(
  t: Test,
  { key, cert }: Authority,
  { request: serve, upgrade }: Service,
): Promise<Upstream> {
  const seen: SeenRequest[] = []
  let connections = 0
  const start = async (server: Server, secure: boolean): Promise<number> => {
    const note = ({ headers, method = '', url = '' }: IncomingMessage) =>
      seen.push({ secure, host: headers.host ?? '', method, url })
    const sockets = new Set<Duplex>()
    server.on('connection', (socket) => {
      connections++
      sockets.add(socket)
      socket.on('error', () => socket.destroy())
      socket.once('close', () => sockets.delete(socket))
    })
    server.on('request', (request, response) => {
      note(request)
      serve(request, response)
    })
    if (upgrade !== undefined) {
      server.on('upgrade', (request, socket) => {
        note(request)
        upgrade(request, socket)
      })
    }
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.teardown(async () => {
      server.close()
      for (const socket of sockets) socket.destroy()
      if (server.listening) await once(server, 'close')
    })
    return (server.address() as AddressInfo).port
  }
  return {
    tlsPort: await start(createHttpsServer({ key, cert }), true),
    plainPort: await start(createHttpServer(), false),
    seen,
    connections: () => connections,
  }
}
