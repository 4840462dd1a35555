import { type Server, Socket } from 'node:net'
import { PooledSocket } from './pooled-socket.ts'

/**
 * How long a connection is silent before the other end is asked whether it is there, and how often it is looked which
 * connections are to be asked, in milliseconds. Most are closed before that, and to say it of each when it is made was a
 * thirtieth of what a tunnel costs.
 */
export const KEEP_ALIVE_MS = 30_000

/** Has the system ask the other end, from now on, whenever a connection is silent for {@link KEEP_ALIVE_MS}. */
export function keepAlive(socket: Socket): void {
  socket.setKeepAlive(true, KEEP_ALIVE_MS)
}

/** How bytes are read: into pooled buffers, or as Node's streams read. */
export type RelayKind = 'pooled' | 'streams'

/** The relay that a proxy uses, and why. */
export interface RelayChoice {
  readonly kind: RelayKind
  readonly why: string
}

/** What Node's server holds of the system's listener: not documented, so it is looked at before it is used. */
interface ListenerHandle {
  onconnection: (this: ListenerHandle, error: number, connection: unknown) => void
}

/**
 * Says which relay this Node.js can do. A connection becomes a pooled socket by the way Node's own server makes its
 * sockets, which is not documented: where a trial shows that it is another way, everything is read as Node reads it.
 *
 * @param wanted `streams` asks for nothing else. Default: `pooled`
 */
export function chooseRelay(wanted: RelayKind = 'pooled'): RelayChoice {
  if (wanted === 'streams') return { kind: 'streams', why: 'asked for' }
  const missing = trialFault()
  return missing === undefined
    ? { kind: 'pooled', why: `Node.js ${process.version} has what it takes` }
    : { kind: 'streams', why: `Node.js ${process.version} ${missing}` }
}

/** Makes a pooled socket of a connection that there is not; answers what did not happen that has to. */
function trialFault(): string | undefined {
  let given: unknown
  let isReading = false
  const connection = {
    useUserBuffer: (buffer: unknown) => void (given = buffer),
    readStart: () => ((isReading = true), 0),
    readStop: () => 0,
    onread: undefined as unknown,
  }
  try {
    const { intake } = new PooledSocket(connection)
    if (given !== intake.buffer) return 'does not read into the buffer of a socket'
    return isReading && typeof connection.onread === 'function'
      ? undefined
      : 'does not read the connection of a socket'
  } catch (error) {
    return `makes no socket of a connection: ${error instanceof Error ? error.message : String(error)}`
  }
}

/** Makes and starts a connection to an address: half-open, without delay. */
export type Connect = (host: string, port: number) => Socket

/** How the sockets of a relay connect. */
export function connectorOf({ kind }: RelayChoice): Connect {
  return (host, port) => {
    const socket = kind === 'pooled' ? new PooledSocket() : new Socket({ allowHalfOpen: true })
    socket.setNoDelay(true)
    return socket.connect({ host, port })
  }
}

/** Gives the connections of a server to a function, as pooled sockets if the relay is that and the server lets them be. */
export function acceptFrom(
  server: Server,
  { kind }: RelayChoice,
  onConnection: (socket: Socket) => void,
): void {
  server.on('connection', onConnection)
  if (kind !== 'pooled') return
  const takeOver = () => {
    const { _handle: handle } = server as { _handle?: Partial<ListenerHandle> | null }
    const plain = handle?.onconnection
    if (!handle || typeof plain !== 'function') return
    handle.onconnection = function (error, connection) {
      if (error || connection === undefined) plain.call(this, error, connection)
      else server.emit('connection', new PooledSocket(connection))
    }
  }
  if (server.listening) takeOver()
  server.on('listening', takeOver)
}
