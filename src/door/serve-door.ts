import type { Server, Socket } from 'node:net'
import { classifyIp } from '../policy/address-kind.ts'
import { formatIp } from '../policy/address.ts'
import type { EgressProxy, ReadArrival } from '../proxy/egress-proxy.ts'
import { parseSystemAddress } from '../proxy/local-addresses.ts'
import type { DoorSockets, DoorUse } from './door.ts'
import type { DoorPlan } from './door-plan.ts'
import { createNameStub, type NameStub } from './name-stub.ts'
import { serveDatagrams, serveFramedDatagrams, serveStream } from './serve-names.ts'
import type { SyntheticNames } from './synthetic-names.ts'

/** Connections to the resolver at a time. */
const MAX_STREAMS = 64

/** What a door is served by, beside the proxy. */
export interface DoorService {
  readonly plan: DoorPlan
  /** The names that the proxy knows by addresses too. */
  readonly names: SyntheticNames
  /** Milliseconds, of a clock that never goes back. */
  readonly now: () => number
  /** The sandbox's own name. Default: it has none. */
  readonly hostname?: string
}

/**
 * Serves all sockets of a door: programs that know of the proxy, programs that do not, and the resolver that shows them
 * which names there are.
 *
 *     getaddrinfo ──▶ resolver ──▶ 127.64.x.y for a name that may be reached ──connect──▶ the name again ──▶ proxy
 */
export function serveDoor(door: DoorSockets, proxy: EgressProxy, service: DoorService): void {
  const { names, now, hostname } = service
  const stub = createNameStub({
    names,
    now,
    mayReach: ({ name }) => proxy.mayReach(name),
    onDenied: (name) => proxy.recordDeniedName(name),
    ...(hostname !== undefined && { hostname }),
  })
  for (const { server, use } of door.servers) {
    if (use === 'names') serveStreams(server, stub)
    else if (use === 'framed')
      server.on('connection', (socket) => serveFramedDatagrams(socket, stub))
    else proxy.attach(server, arrivalAt(use, service))
  }
  if (door.datagrams) serveDatagrams(door.datagrams, stub)
}

/** Resolvers ask over TCP one by one: whoever opens more than that has lost count. */
function serveStreams(server: Server, stub: NameStub): void {
  let open = 0
  server.on('connection', (socket: Socket) => {
    socket.on('error', () => undefined)
    if (open === MAX_STREAMS) {
      socket.destroy()
      return
    }
    open++
    socket.once('close', () => open--)
    serveStream(socket, stub)
  })
}

/** A clock that never goes back. */
export function steady(now: () => number): () => number {
  let last = -Infinity
  return () => (last = Math.max(last, now()))
}

/** Where a connection to a socket came to. */
function arrivalAt(
  use: Exclude<DoorUse, 'names' | 'framed'>,
  { plan, names }: DoorService,
): ReadArrival {
  if (use === 'proxy') return () => 'proxy'
  return (socket: Socket) => {
    const ip = parseSystemAddress(socket.localAddress ?? '')
    const port = use === 'any' ? socket.localPort : use
    if (ip === undefined || port === undefined) return undefined
    const address = formatIp(ip)
    // The sandbox itself, and the resolver, are no place to go to; whatever else there is has been led here.
    const isHere = classifyIp(ip).kind === 'loopback' && !names.has(address)
    return isHere || address === plan.stub ? undefined : { ip, port }
  }
}
