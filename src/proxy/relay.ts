import type { Socket } from 'node:net'
import { PooledCarrier, PooledSocket } from './pooled-socket.ts'
import { giveTo, type SocketOwner } from './socket-owner.ts'

/** How a pair of sockets ended. */
export type RelayCause = 'end' | 'reset' | 'idle' | 'drain' | 'error'

/** Carries bytes until it is stopped. */
interface Carrier {
  start(): void
  stop(): void
  close(): void
}

/** The same with Node's streams. */
class StreamCarrier implements Carrier {
  readonly #from: Socket
  readonly #to: Socket

  constructor(from: Socket, to: Socket) {
    this.#from = from
    this.#to = to
  }

  start(): void {
    this.#from.on('data', this.#onData)
    this.#to.on('drain', this.#onDrain)
    this.#from.resume()
  }

  stop(): void {
    this.#from.removeListener('data', this.#onData)
    this.#to.removeListener('drain', this.#onDrain)
    this.#from.pause()
  }

  close(): void {}

  readonly #onData = (chunk: Buffer) => {
    if (!this.#to.write(chunk)) this.#from.pause()
  }

  readonly #onDrain = () => this.#from.resume()
}

/** What Node.js holds of the system's socket: not documented, so it is looked at before it is used. */
interface SocketHandle {
  getpeername?(address: object): number
  readStart?(): number
}

/** True for a connection whose other end has reset it, or that both sides have ended. */
export function hasLostPeer(socket: Socket): boolean {
  const { _handle: handle } = socket as { _handle?: SocketHandle | null }
  return handle?.getpeername !== undefined && handle.getpeername({}) !== 0
}

/** True if this end may be the one that is none: with bytes in the same turn, and not behind an end of our own. */
function mayBeReset(from: Socket): boolean {
  return !from.writableEnded && (!(from instanceof PooledSocket) || from.hasJustRead)
}

/**
 * Passes an end on once it is one. The library that Node.js reads with takes a reset that comes together with bytes for an
 * end (libuv/libuv#4997), but the peer has no address any more. Who reads once more is told which of the two it was: a
 * reset becomes an error of the socket.
 */
function confirmEnd(from: Socket, lane: Lane): void {
  const { _handle: handle } = from as { _handle?: SocketHandle | null }
  if (!mayBeReset(from) || !hasLostPeer(from) || handle?.readStart?.() !== 0) {
    lane.passEnd()
    return
  }
  // The system is asked in the turn behind this one.
  setImmediate(() => setImmediate(() => from.errored ?? lane.passEnd()))
}

/**
 * One way of a relay: an end is passed on as an end, and a side that does not read holds the other one back. The owner of
 * the source tells it what becomes of that.
 */
export class Lane {
  readonly #from: Socket
  readonly #to: Socket
  readonly #carrier: Carrier
  #isStarted = false

  constructor(from: Socket, to: Socket) {
    this.#from = from
    this.#to = to
    this.#carrier =
      from instanceof PooledSocket ? new PooledCarrier(from, to) : new StreamCarrier(from, to)
  }

  /** Carries from now on, and what the source has already. */
  start(): void {
    this.#isStarted = true
    if (this.#from.readableEnded) this.end()
    this.#carrier.start()
  }

  /** Leaves the bytes that still come to the stream of the source. */
  stop(): void {
    this.#isStarted = false
    this.#carrier.stop()
  }

  /** To be called when the source has ended. */
  end(): void {
    if (this.#isStarted) confirmEnd(this.#from, this)
  }

  /** To be called when the source has closed. */
  close(): void {
    this.#carrier.close()
  }

  /** Ends the destination, unless the lane was stopped. */
  passEnd(): void {
    if (!this.#isStarted) return
    // Behind the end of both sides there is nothing but the close, which says all that an end would say.
    if (this.#to.readableEnded && this.#to.writableLength === 0) this.#to.destroy()
    else this.#to.end()
  }
}

/**
 * Two sockets that live and die together: when one has closed, the other one is ended, or reset if it did not end
 * properly. Nothing is carried before the lanes are started.
 */
export class Relay implements SocketOwner {
  /** From the client to the upstream. */
  readonly up: Lane
  /** From the upstream to the client. */
  readonly down: Lane
  readonly #client: Socket
  readonly #upstream: Socket
  readonly #onClosed: (cause: RelayCause) => void
  #onIdle: (() => void) | undefined
  #onGone: (() => void) | undefined
  #cause: RelayCause = 'end'
  #open = 2

  /**
   * @param idleMs milliseconds without a byte either way before both are closed; 0 is never
   * @param onClosed called when both are closed
   */
  constructor(
    client: Socket,
    upstream: Socket,
    idleMs: number,
    onClosed: (cause: RelayCause) => void,
  ) {
    this.#client = client
    this.#upstream = upstream
    this.#onClosed = onClosed
    this.up = new Lane(client, upstream)
    this.down = new Lane(upstream, client)
    giveTo(client, this)
    giveTo(upstream, this)
    if (idleMs === 0) return
    this.#onIdle = () => this.destroy('idle')
    client.setTimeout(idleMs, this.#onIdle)
    upstream.setTimeout(idleMs, this.#onIdle)
  }

  /** Calls a function when the client ends its side, or closes: as long as nothing is carried up, somebody else reads it. */
  whenClientGone(onGone: (() => void) | undefined): void {
    this.#onGone = onGone
  }

  onEnd(socket: Socket): void {
    if (socket === this.#upstream) this.down.end()
    else {
      this.up.end()
      this.#onGone?.()
    }
  }

  onError(_: Socket, { code }: NodeJS.ErrnoException): void {
    this.#blame(code === 'ECONNRESET' || code === 'EPIPE' ? 'reset' : 'error')
  }

  onClose(socket: Socket, hadError: boolean): void {
    if (socket === this.#upstream) {
      this.down.close()
      this.#endWith(socket, this.#client, hadError)
    } else {
      this.up.close()
      this.#endWith(socket, this.#upstream, hadError)
      this.#onGone?.()
    }
  }

  /** Starts both lanes. */
  carry(): void {
    this.down.start()
    this.up.start()
  }

  /**
   * Ends both if one has ended its side and is gone since: nothing is read of it any more, so Node does not notice a reset
   * behind its end.
   */
  endIfLost(): void {
    const sockets = [this.#client, this.#upstream]
    if (sockets.some((socket) => socket.readableEnded && hasLostPeer(socket))) this.destroy('reset')
  }

  /** Ends both at once. */
  destroy(cause: RelayCause): void {
    this.#blame(cause)
    resetSocket(this.#client)
    resetSocket(this.#upstream)
  }

  /** Lets go of both without ending them; `onClosed` is never called then. */
  release(): void {
    this.up.stop()
    this.down.stop()
    for (const socket of [this.#client, this.#upstream]) {
      giveTo(socket, undefined)
      socket.setTimeout(0)
      if (this.#onIdle !== undefined) socket.removeListener('timeout', this.#onIdle)
    }
  }

  #blame(cause: RelayCause): void {
    if (this.#cause === 'end') this.#cause = cause
  }

  /** One has closed: the other one is ended too. */
  #endWith(closed: Socket, other: Socket, hadError: boolean): void {
    if (hadError || !closed.readableEnded) {
      this.#blame('reset')
      resetSocket(other)
    } else if (other.writable) other.end()
    if (--this.#open === 0) this.#onClosed(this.#cause)
  }
}

/** How long a client that ended its side may wait for more of its answer, in milliseconds. */
const HALF_CLOSED_IDLE_MS = 60_000

/**
 * Bounds how long a client that has ended its side may take: it may be waiting for its answer, or gone, and Node would not
 * notice a reset behind an end. Every byte of the answer renews it. A tunnel has rules of its own.
 */
export function boundHalfClosed(socket: Socket, idleMs: number = HALF_CLOSED_IDLE_MS): void {
  socket.setTimeout(idleMs, () => resetSocket(socket))
}

/**
 * Ends a socket with RST, so that its peer does not take it for a proper end. A unix socket knows no RST, and a socket
 * that is still sending its end must not get one: Node would lose it, open for ever.
 */
export function resetSocket(socket: Socket): void {
  if (socket.destroyed) return
  const isEnding = socket.writableEnded && !socket.writableFinished
  if (isEnding || socket.remoteFamily === undefined) socket.destroy()
  else socket.resetAndDestroy()
}
