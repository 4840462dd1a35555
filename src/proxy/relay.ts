import type { Socket } from 'node:net'

/** How a pair of sockets ended. */
export type RelayCause = 'end' | 'reset' | 'idle' | 'drain' | 'error'

/**
 * Carries bytes one way: an end is passed on as an end, and a side that does not read holds the other one back. Answers
 * a function that stops it and leaves both sockets paused.
 */
export function pump(from: Socket, to: Socket): () => void {
  const onData = (chunk: Buffer) => {
    if (!to.write(chunk)) from.pause()
  }
  const onDrain = () => from.resume()
  const onEnd = () => to.end()
  from.on('data', onData)
  from.on('end', onEnd)
  to.on('drain', onDrain)
  from.resume()
  return () => {
    from.removeListener('data', onData)
    from.removeListener('end', onEnd)
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
 * Ties two sockets together: when one closes without having ended properly, the other one is reset.
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
    client.destroy()
    upstream.destroy()
  }
  const onIdle = () => destroy('idle')
  const onError = (error: NodeJS.ErrnoException) =>
    blame(error.code === 'ECONNRESET' || error.code === 'EPIPE' ? 'reset' : 'error')
  const onClose = (closedSide: Socket, other: Socket, hadError: boolean) => {
    if (hadError || !closedSide.readableEnded) {
      blame('reset')
      resetSocket(other)
    }
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

/** Ends a socket with RST, so that its peer does not take it for a proper end. */
export function resetSocket(socket: Socket): void {
  if (!socket.destroyed) socket.resetAndDestroy()
}
