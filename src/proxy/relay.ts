import type { Socket } from 'node:net'
import { PooledSocket, pumpPooled } from './pooled-socket.ts'

/** How a pair of sockets ended. */
export type RelayCause = 'end' | 'reset' | 'idle' | 'drain' | 'error'

/**
 * Carries bytes one way: an end is passed on as an end, and a side that does not read holds the other one back. Answers
 * a function that stops it and leaves the bytes that still come to the stream of the source.
 */
export function pump(from: Socket, to: Socket): () => void {
  const onEnd = () => to.end()
  if (from.readableEnded) onEnd()
  from.on('end', onEnd)
  const stop = from instanceof PooledSocket ? pumpPooled(from, to) : pumpStream(from, to)
  return () => {
    from.removeListener('end', onEnd)
    stop()
  }
}

function pumpStream(from: Socket, to: Socket): () => void {
  const onData = (chunk: Buffer) => {
    if (!to.write(chunk)) from.pause()
  }
  const onDrain = () => from.resume()
  from.on('data', onData)
  to.on('drain', onDrain)
  from.resume()
  return () => {
    from.removeListener('data', onData)
    to.removeListener('drain', onDrain)
    from.pause()
  }
}

/** Two sockets that live and die together. */
export interface SocketPair {
  /** Settles when both are closed. */
  readonly closed: Promise<RelayCause>
  /** Ends both at once. */
  destroy(cause: RelayCause): void
  /** Lets go of both without ending them; `closed` never settles then. */
  release(): void
}

/**
 * Ties two sockets together: when one has closed, the other one is ended, or reset if it did not end properly.
 *
 * @param idleMs milliseconds without a byte either way before both are closed; 0 is never
 */
export function tieSockets(client: Socket, upstream: Socket, idleMs: number): SocketPair {
  let cause: RelayCause = 'end'
  let open = 2
  let settle: (cause: RelayCause) => void
  const closed = new Promise<RelayCause>((resolve) => (settle = resolve))
  const blame = (found: RelayCause) => {
    if (cause === 'end') cause = found
  }
  const destroy = (found: RelayCause) => {
    blame(found)
    resetSocket(client)
    resetSocket(upstream)
  }
  const onIdle = () => destroy('idle')
  const onError = (error: NodeJS.ErrnoException) =>
    blame(error.code === 'ECONNRESET' || error.code === 'EPIPE' ? 'reset' : 'error')
  const onClose = (closedSide: Socket, other: Socket, hadError: boolean) => {
    if (hadError || !closedSide.readableEnded) {
      blame('reset')
      resetSocket(other)
    } else if (!other.writableEnded) other.end()
    if (--open === 0) settle(cause)
  }
  const onClientClose = (hadError: boolean) => onClose(client, upstream, hadError)
  const onUpstreamClose = (hadError: boolean) => onClose(upstream, client, hadError)
  client.on('close', onClientClose)
  upstream.on('close', onUpstreamClose)
  for (const socket of [client, upstream]) {
    socket.on('error', onError)
    if (idleMs > 0) socket.setTimeout(idleMs, onIdle)
  }
  return {
    closed,
    destroy,
    release() {
      client.removeListener('close', onClientClose)
      upstream.removeListener('close', onUpstreamClose)
      for (const socket of [client, upstream]) {
        socket.setTimeout(0)
        socket.removeListener('timeout', onIdle)
      }
    },
  }
}

/** How long a client that ended its side may wait for more of its answer, in milliseconds. */
const HALF_CLOSED_IDLE_MS = 60_000

/**
 * A client that ended its side may be waiting for its answer, or gone: Node would not notice a reset behind an end. So it
 * gets a bound, which every byte of the answer renews. A tunnel has rules of its own.
 */
export function boundHalfClosed(
  socket: Socket,
  isWaiting: () => boolean,
  idleMs: number = HALF_CLOSED_IDLE_MS,
): void {
  socket.once('end', () => {
    if (isWaiting()) socket.setTimeout(idleMs, () => resetSocket(socket))
  })
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
