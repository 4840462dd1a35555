import { createHash } from 'node:crypto'
import type { Socket } from 'node:net'
import { type Random, seeded } from './random.ts'

/** A prime, so that no size of a buffer leads back to the same bytes. */
const PERIOD = 1_048_573
/** The longest piece that is written at once. */
const LONGEST = 1_048_576
/** How far apart two streams begin in the table. */
const STRIDE = 104_729

const table = randomTable()

/** Random bytes, the same in every run; the front once more behind them, so that every piece is in one piece. */
function randomTable(): Buffer {
  const bytes = Buffer.allocUnsafe(PERIOD + LONGEST)
  for (let at = 0, count = 0; at < PERIOD; count++) {
    const block = createHash('sha512').update(String(count)).digest()
    at += block.copy(bytes, at, 0, Math.min(block.length, PERIOD - at))
  }
  bytes.copyWithin(PERIOD, 0, LONGEST)
  return bytes
}

/** The bytes of a stream from a position on, which are those of no other stream and no other position. */
export function streamBytes(stream: number, at: number, length: number): Buffer {
  const start = (at + stream * STRIDE) % PERIOD
  return table.subarray(start, start + length)
}

/** How a writer cuts its bytes: from little pieces to the largest, or all of that in turns. */
export type Pieces = 'small' | 'medium' | 'turning' | 'odd' | 'large' | 'whole' | 'mixed'
/** How a reader reads: at once, a little at a time, in bursts, or with long stops. */
export type Reading = 'fast' | 'slow' | 'bursty' | 'stopping'

export const PIECES: readonly Pieces[] = ['small', 'medium', 'turning', 'odd', 'large', 'mixed']
export const READINGS: readonly Reading[] = ['fast', 'slow', 'bursty', 'stopping']

/** One direction of one connection. */
export interface Flow {
  readonly stream: number
  readonly size: number
  readonly pieces?: Pieces
  readonly reading?: Reading
  /** How many bytes have been sent already. */
  readonly from?: number
}

/** Lengths of the pieces of a flow, without end. */
function* lengthsOf(pieces: Pieces, random: Random): Generator<number> {
  for (;;) {
    const kind =
      pieces === 'mixed'
        ? random.pick(['small', 'medium', 'turning', 'odd', 'large', 'whole'] as const)
        : pieces
    // A run of one kind is long enough for a relay to take to it.
    for (let left = 1 + random.below(8); left > 0; left--) {
      if (kind === 'small') yield 1 + random.below(2_000)
      else if (kind === 'medium') yield 1 + random.below(30_000)
      else if (kind === 'turning') yield left % 2 === 0 ? 33_000 : 32_000
      else if (kind === 'odd') yield 1 + 2 * random.below(50_000)
      else if (kind === 'large') yield 65_536 + random.below(400_000)
      else yield LONGEST
    }
  }
}

/** Writes a flow as fast as it is taken, without its end. It is over when the last piece is written, or the socket gone. */
export async function sendFlow(socket: Socket, flow: Flow): Promise<void> {
  const { stream, size, pieces = 'whole', from = 0 } = flow
  const random = seeded(stream)
  const lengths = lengthsOf(pieces, random)
  for (let at = from; at < size && socket.writable;) {
    const wanted = lengths.next().value as number
    const length = Math.min(size - at, wanted)
    const isRoom = socket.write(streamBytes(stream, at, length))
    at += length
    if (!isRoom) await drained(socket)
    else if (length < 40_000 || random.chance(50)) await new Promise(setImmediate)
  }
}

function drained(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      socket.removeListener('drain', done)
      socket.removeListener('close', done)
      resolve()
    }
    if (socket.destroyed) return done()
    socket.on('drain', done)
    socket.on('close', done)
  })
}

/** What has come of a flow. */
export interface Receipt {
  readonly got: number
  /** The first byte that is not what it has to be. */
  readonly fault: string | undefined
  /** How it ended, once it has. */
  readonly end: 'end' | 'reset' | 'closed' | undefined
  /** Settles with it. */
  readonly ended: Promise<void>
}

/** Reads a flow to its end and holds every byte to what it has to be. A wrong one ends the socket. */
export function receiveFlow(socket: Socket, flow: Flow): Receipt {
  const { stream, reading = 'fast' } = flow
  const nextPause = pausesOf(reading, seeded(stream + 1_000_000))
  const receipt: { -readonly [K in keyof Receipt]: Receipt[K] } = {
    got: 0,
    fault: undefined,
    end: undefined,
    ended: new Promise((resolve) => {
      const settle = (end: Receipt['end']) => {
        receipt.end ??= end
        resolve()
      }
      socket.on('end', () => settle(isPeerGone(socket) ? 'reset' : 'end'))
      socket.on('error', ({ code }: NodeJS.ErrnoException) =>
        settle(code === 'ECONNRESET' || code === 'EPIPE' ? 'reset' : 'closed'),
      )
      socket.on('close', () => settle('closed'))
    }),
  }
  socket.on('data', (chunk: Buffer) => {
    const at = receipt.got
    receipt.got += chunk.length
    if (receipt.fault !== undefined) return
    receipt.fault = faultOf(stream, at, chunk)
    if (receipt.fault !== undefined) {
      socket.destroy()
      return
    }
    const ms = nextPause(chunk.length)
    if (ms === 0) return
    socket.pause()
    setTimeout(() => socket.resume(), ms)
  })
  socket.resume()
  return receipt
}

/** True behind a reset that Node tells as an end because it came together with bytes: there is no peer any more. */
function isPeerGone(socket: Socket): boolean {
  const { _handle: handle } = socket as {
    readonly _handle?: { getpeername(address: object): number }
  }
  return !socket.writableEnded && handle?.getpeername({}) !== 0
}

/** How many milliseconds a reader rests after so many bytes more. The system keeps some 10 MB for one that does not read. */
function pausesOf(reading: Reading, random: Random): (length: number) => number {
  if (reading === 'fast') return () => 0
  let next = 0
  let count = 0
  return (length) => {
    next -= length
    if (next > 0) return 0
    count++
    switch (reading) {
      case 'slow':
        next = 50_000
        return 2
      case 'bursty':
        next = random.below(4_000_000)
        return random.below(60)
      case 'stopping':
        next = 6_000_000
        return count > 3 ? 0 : 200
    }
  }
}

function faultOf(stream: number, at: number, chunk: Buffer): string | undefined {
  const expected = streamBytes(stream, at, chunk.length)
  if (chunk.equals(expected)) return undefined
  const wrong = chunk.findIndex((byte, i) => byte !== expected[i])
  const found = table.indexOf(chunk.subarray(wrong, wrong + 24))
  const here = (at + wrong + stream * STRIDE) % PERIOD
  const place = found === -1 ? 'bytes of nobody' : `bytes from ${found - here} on`
  return `a wrong byte in stream ${stream} at ${at + wrong}: ${place}`
}
