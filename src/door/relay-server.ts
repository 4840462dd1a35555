import { createServer, Server, type Socket } from 'node:net'
import { DOOR_HOST, DOOR_PORT, type DoorServer, NAMES_PORT } from './door.ts'
import { prepareDoorServer } from './door-server.ts'
import {
  decodePreamble,
  formatLine,
  LineReader,
  MAX_RELAYED,
  parseLine,
  PREAMBLE_BYTES,
  type RelayLine,
  type RelayOrder,
} from './relay-wire.ts'

/** How long a connection may take to say what it is, in milliseconds. */
const PREAMBLE_MS = 5_000

/** The proxy's end of a relay. */
export interface RelayServer {
  /** Emit the connections of the sandbox. They never listen themselves. */
  readonly servers: readonly DoorServer[]
  /** Sends an order to the relay. */
  order(order: RelayOrder): void
  /** Closes all: the relay ends by that. */
  close(): void
}

/** What a relay server tells. */
export interface RelayListener {
  readonly onLine: (line: RelayLine) => void
  /** The relay is gone. */
  readonly onEnd: () => void
}

/**
 * Listens on a unix socket for a relay. The folder keeps strangers out: it is the caller's alone.
 *
 * @param path at most 107 bytes, which is what the system takes
 * @param stub the address of the resolver inside
 */
export async function openRelayServer(
  path: string,
  stub: string,
  listener: RelayListener,
): Promise<RelayServer> {
  const uses = ['proxy', 'names', 'any', 'framed'] as const
  const [proxy, names, any, framed] = uses.map(() => prepareDoorServer(new Server())) as [
    Server,
    Server,
    Server,
    Server,
  ]
  const serverFor = (address: string, port: number) => {
    if (address === DOOR_HOST && port === DOOR_PORT) return proxy
    return address === stub && port === NAMES_PORT ? names : any
  }
  const carried = new Map<number, Socket>()
  const waiting = new Set<Socket>()
  let control: Socket | undefined
  let datagrams: Socket | undefined
  let isClosed = false
  const order = (one: RelayOrder) => {
    if (control?.writable) control.write(formatLine(one))
  }
  const takeControl = (socket: Socket) => {
    if (control !== undefined) {
      socket.destroy()
      return
    }
    control = socket
    const reader = new LineReader()
    socket.on('data', (chunk: Buffer) => {
      const lines = reader.push(chunk)
      if (lines === undefined) socket.destroy()
      for (const line of lines ?? []) obey(line)
    })
    socket.on('end', () => socket.destroy())
    socket.on('close', () => {
      for (const one of carried.values()) one.destroy(resetError())
      listener.onEnd()
    })
    socket.resume()
  }
  const obey = (text: string) => {
    const line = parseLine(text)
    if (line?.kind === 'reset') {
      const socket = carried.get(line.id)
      carried.delete(line.id)
      socket?.destroy(resetError())
    } else if (line !== undefined && line.kind !== 'probe' && line.kind !== 'closed')
      listener.onLine(line)
  }
  const takeCarried = (socket: Socket, id: number, address: string, port: number) => {
    if (control === undefined || carried.has(id)) {
      socket.destroy()
      return
    }
    carried.set(id, socket)
    socket.once('close', () => {
      // Of a reset both sides know.
      if (carried.delete(id) && !socket.readableEnded) order({ kind: 'closed', id })
    })
    const reset = () => {
      carried.delete(id)
      order({ kind: 'reset', id })
    }
    presentAsTcp(socket, { address, port, reset })
    serverFor(address, port).emit('connection', socket)
  }
  const takeFramed = (socket: Socket) => {
    if (control === undefined || datagrams !== undefined) {
      socket.destroy()
      return
    }
    datagrams = socket
    socket.once('close', () => (datagrams = undefined))
    framed.emit('connection', socket)
  }
  const listening = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on('error', () => undefined)
    waiting.add(socket)
    readPreamble(socket, (preamble) => {
      waiting.delete(socket)
      if (preamble === undefined) socket.destroy()
      else if (preamble.kind === 'control') takeControl(socket)
      else if (preamble.kind === 'framed') takeFramed(socket)
      else takeCarried(socket, preamble.id, preamble.address, preamble.port)
    })
  })
  // One more for the control connection, and some that are closing.
  listening.maxConnections = MAX_RELAYED + 64
  await new Promise<void>((resolve, reject) => {
    listening.once('error', reject)
    listening.listen({ path, backlog: 511 }, resolve)
  })
  listening.on('error', () => undefined)
  return {
    servers: [proxy, names, any, framed].map((server, i) => ({ server, use: uses[i] ?? 'any' })),
    order,
    close() {
      if (isClosed) return
      isClosed = true
      listening.close()
      for (const socket of [...waiting, ...carried.values()]) socket.destroy()
      datagrams?.destroy()
      control?.destroy()
    },
  }
}

/** Reads the first bytes of a connection and leaves all that follow. Undefined: they are no preamble, or did not come. */
function readPreamble(
  socket: Socket,
  done: (preamble: ReturnType<typeof decodePreamble>) => void,
): void {
  let seen = Buffer.alloc(0)
  const finish = (preamble: ReturnType<typeof decodePreamble>) => {
    clearTimeout(timer)
    socket.removeListener('data', onData)
    socket.removeListener('end', onEnd)
    socket.removeListener('close', onEnd)
    done(preamble)
  }
  const onEnd = () => finish(undefined)
  const onData = (chunk: Buffer) => {
    seen = Buffer.concat([seen, chunk])
    if (seen.length < PREAMBLE_BYTES) return
    const rest = seen.subarray(PREAMBLE_BYTES)
    socket.pause()
    if (rest.length > 0) socket.unshift(rest)
    finish(decodePreamble(seen.subarray(0, PREAMBLE_BYTES)))
  }
  const timer = setTimeout(onEnd, PREAMBLE_MS)
  socket.on('data', onData)
  socket.once('end', onEnd)
  socket.once('close', onEnd)
}

interface Presented {
  /** Where the client in the sandbox connected to. */
  readonly address: string
  readonly port: number
  /** Sends word of a reset. */
  readonly reset: () => void
}

/** Makes a carrier look like the connection that it carries, as far as the proxy looks. */
function presentAsTcp(socket: Socket, { address, port, reset }: Presented): void {
  const family = address.includes(':') ? 'IPv6' : 'IPv4'
  const value = <T>(given: T) => ({ value: given, configurable: true })
  Object.defineProperties(socket, {
    localAddress: value(address),
    localPort: value(port),
    localFamily: value(family),
    // The clients of one sandbox are one client, wherever they connect to.
    remoteAddress: value(DOOR_HOST),
    remoteFamily: value('IPv4'),
    resetAndDestroy: value(() => {
      // The word goes out first, so that the relay does not take the close for an end.
      if (!socket.destroyed) reset()
      return socket.destroy()
    }),
  })
}

function resetError(): Error {
  return Object.assign(new Error('the client in the sandbox reset the connection'), {
    code: 'ECONNRESET',
  })
}
