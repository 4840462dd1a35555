import type { Socket as DatagramSocket } from 'node:dgram'
import type { Socket } from 'node:net'
import { FrameReader, writeFrame } from './frame-reader.ts'
import type { NameStub } from './name-stub.ts'

/** How long a connection may be without a whole query, in milliseconds (RFC 7766 6.2.3). */
const IDLE_MS = 10_000

/** A query has a header (12 octets) and is never as long as a message may be. */
const MIN_QUERY_BYTES = 12
const MAX_QUERY_BYTES = 4_096

/** Answers that wait for the kernel. One that would be more is dropped, as any datagram may be. */
const MAX_WAITING_BYTES = 262_144

/** Answers the datagrams of a socket. An answer that cannot be sent is dropped. */
export function serveDatagrams(socket: DatagramSocket, stub: NameStub): void {
  socket.on('error', () => undefined)
  socket.on('message', (message, { address, port }) => {
    const answer = stub.answerDatagram(message)
    // Port 0 is what only a forger sends from; Node throws for it.
    if (answer === undefined || port === 0) return
    if (socket.getSendQueueSize() > MAX_WAITING_BYTES) return
    socket.send(answer, port, address, () => undefined)
  })
}

/**
 * Answers the queries of one connection in order (RFC 7766). It is destroyed when it sends what is too short or too long for a
 * query, and when none came, or none could be answered because nobody reads, for 10 s.
 */
export function serveStream(socket: Socket, stub: NameStub, idleMs = IDLE_MS): void {
  const timer = setTimeout(() => socket.destroy(), idleMs)
  socket.once('close', () => clearTimeout(timer))
  serveFrames(socket, {
    takes: (length) => length >= MIN_QUERY_BYTES && length <= MAX_QUERY_BYTES,
    answer(query) {
      timer.refresh()
      return stub.answerStream(query)
    },
  })
}

/**
 * Answers datagrams that a relay carries over a stream, each in a frame with its length in front. For every frame one comes back,
 * in order; it is empty where nothing is answered.
 */
export function serveFramedDatagrams(socket: Socket, stub: NameStub): void {
  serveFrames(socket, {
    takes: () => true,
    answer: (datagram) => stub.answerDatagram(datagram) ?? Buffer.alloc(0),
  })
}

interface FrameServer {
  /** True if a frame may be of this length. */
  readonly takes: (length: number) => boolean
  /** What is sent back for a frame; undefined: nothing. */
  readonly answer: (frame: Buffer) => Buffer | undefined
}

/** Answers frames while the other side reads. Else nothing more is read: one chunk waits, and one frame. */
function serveFrames(socket: Socket, { takes, answer }: FrameServer): void {
  const frames = new FrameReader()
  let hasEnded = false
  const work = () => {
    while (socket.writable && !socket.writableNeedDrain) {
      const length = frames.nextLength()
      if (length !== undefined && !takes(length)) {
        socket.destroy()
        return
      }
      const frame = frames.next()
      if (frame === undefined) {
        if (hasEnded) socket.end()
        else socket.resume()
        return
      }
      const back = answer(frame)
      if (back !== undefined) socket.write(writeFrame(back))
    }
    socket.pause()
  }
  socket.on('error', () => undefined)
  socket.on('data', (chunk: Buffer) => {
    frames.push(chunk)
    work()
  })
  socket.on('drain', work)
  socket.on('end', () => {
    hasEnded = true
    work()
  })
  work()
}
