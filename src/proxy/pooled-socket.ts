import { Socket } from 'node:net'

/** A read of this many bytes says that more are on their way: the next ones get a buffer of their own. */
const LARGE_READ = 32 * 1024
const SHARED_BYTES = 64 * 1024
const PRIVATE_BYTES = 256 * 1024
/** Private buffers that are lent at a time, over all sockets. Who gets none is read through the shared one. */
const MAX_LENT = 256
/** Private buffers that are kept for the next one who needs one. */
const MAX_KEPT = 16

/** Takes bytes that are lent to it: they are another's once it has returned. False asks for no more. */
export type TakeBytes = (bytes: Buffer) => boolean

/**
 * The buffer that all pooled sockets read into as long as they read little. What is in it belongs to the socket that is
 * read at this moment and is gone with the next read of any other: whoever keeps bytes, or hands them to a write, copies them.
 */
const shared = Buffer.allocUnsafeSlow(SHARED_BYTES)
const kept: Buffer[] = []
let lent = 0

/** A buffer for one socket alone; undefined if too many have one. */
function borrow(): Buffer | undefined {
  if (lent === MAX_LENT) return undefined
  lent++
  return kept.pop() ?? Buffer.allocUnsafeSlow(PRIVATE_BYTES)
}

/** @param mayReuse false if a write, or the system, may still look into it: then the garbage collector gets it */
function giveBack(buffer: Buffer, mayReuse: boolean): void {
  lent--
  if (mayReuse && kept.length < MAX_KEPT) kept.push(buffer)
}

/** Counts the turns of the event loop in which something is read. */
let turn = 0
let isCounted = false

function thisTurn(): number {
  if (!isCounted) {
    isCounted = true
    setImmediate(countTurn)
  }
  return turn
}

function countTurn(): void {
  isCounted = false
  turn++
}

/** Where the bytes of a socket are read into, and who takes them. */
class Intake {
  buffer: Buffer = shared
  readIn = -1
  take: TakeBytes | undefined
  socket: Socket | undefined

  onRead(length: number, buffer: Buffer): boolean {
    this.readIn = thisTurn()
    const bytes = buffer.subarray(0, length)
    if (this.take) return this.take(bytes)
    // Nobody takes them at once: they are the stream's, as with every other socket.
    return this.socket?.push(Buffer.from(bytes)) ?? false
  }
}

/**
 * What every socket tells its streams. Told here already, options have the same shape from their beginning to their end:
 * where the socket adds to them V8 looks up all that the streams ask for anew, and to make a socket takes twenty times as long.
 */
const TOLD_BY_SOCKETS = { emitClose: false, autoDestroy: true, decodeStrings: false }

/**
 * A TCP socket that is read without an allocation for each read. To everybody who uses it as a stream it is one like any
 * other; {@link takeBytes} and {@link PooledCarrier} take its bytes before they become one.
 */
export class PooledSocket extends Socket {
  readonly intake: Intake

  /** @param handle what a server was given for a connection; undefined for a socket that will connect */
  constructor(handle?: unknown) {
    const intake = new Intake()
    const options = {
      allowHalfOpen: true,
      handle,
      onread: {
        buffer: () => intake.buffer,
        callback: (length: number, buffer: Buffer) => intake.onRead(length, buffer),
      },
      ...TOLD_BY_SOCKETS,
    }
    super(options)
    intake.socket = this
    this.intake = intake
  }

  /** True if bytes came in this turn of the event loop. */
  get hasJustRead(): boolean {
    return this.intake.readIn === turn
  }
}

/** What waits in a socket's stream, if anything does. */
function takeWaiting(from: Socket): Buffer | undefined {
  if (from.readableLength === 0) return undefined
  const chunks: Buffer[] = []
  for (let chunk = from.read() as Buffer | null; chunk; chunk = from.read() as Buffer | null) {
    chunks.push(chunk)
  }
  return chunks.length === 1 ? chunks[0] : Buffer.concat(chunks)
}

/**
 * Gives the bytes of a socket to a function as they come, until it answers false: it has enough. They are lent to it for
 * the call; later ones are the stream's. An end is the stream's `end`. Answers what stops it before.
 */
export function takeBytes(from: Socket, take: TakeBytes): () => void {
  if (!(from instanceof PooledSocket)) return takeData(from, take)
  const { intake } = from
  const stop = () => void (intake.take = undefined)
  const waiting = takeWaiting(from)
  if (waiting && !take(waiting)) return stop
  intake.take = (bytes) => {
    // What it does with them may be that another takes over.
    const { take: taker } = intake
    stop()
    if (take(bytes)) intake.take = taker
    return true
  }
  from.read(0)
  return stop
}

function takeData(from: Socket, take: TakeBytes): () => void {
  const stop = () => {
    from.removeListener('data', onData)
    from.pause()
  }
  const start = () => {
    from.on('data', onData)
    from.resume()
  }
  const onData = (bytes: Buffer) => {
    stop()
    if (take(bytes)) start()
  }
  start()
  return stop
}

/**
 * Carries the bytes of a pooled socket to another one. A destination that does not take them holds the source back.
 * Little reads are copied; a socket that reads much at once reads into a buffer of its own, which is written as it is, and
 * nothing more is read before it has left.
 */
export class PooledCarrier {
  readonly #from: PooledSocket
  readonly #to: Socket
  #isHeld = false

  constructor(from: PooledSocket, to: Socket) {
    this.#from = from
    this.#to = to
  }

  start(): void {
    const waiting = takeWaiting(this.#from)
    this.#from.intake.take = this.#carry
    if (waiting && !this.#to.write(waiting, this.#onWritten)) this.#isHeld = this.#isPending
    if (!this.#isHeld) this.#from.read(0)
  }

  /**
   * Leaves what comes now to the stream. The system still knows the buffer as the one to read into, so it is not used again;
   * and a source whose buffer is not yet written is ended: what it reads next would lie over what has not left.
   */
  stop(): void {
    if (this.#from.intake.buffer !== shared && this.#isPending) this.#from.destroy()
    this.#letGo(false)
  }

  /** To be called once nothing more can come: the source has closed. */
  close(): void {
    this.#letGo(!this.#isPending)
  }

  /** True if the destination has not let go of all that was written. */
  get #isPending(): boolean {
    return this.#to.writableLength > 0
  }

  readonly #carry: TakeBytes = (bytes) => {
    const { intake } = this.#from
    const own = intake.buffer
    if (own === shared) {
      const isRoom = this.#to.write(Buffer.from(bytes), this.#onWritten)
      if (bytes.length >= LARGE_READ) intake.buffer = borrow() ?? shared
      this.#isHeld = !isRoom && this.#isPending
      return !this.#isHeld
    }
    this.#to.write(bytes, this.#onWritten)
    this.#isHeld = this.#isPending
    if (this.#isHeld) return false
    if (bytes.length < LARGE_READ) {
      // All of it has left, and what is read next is read into another buffer.
      intake.buffer = shared
      giveBack(own, true)
    }
    return true
  }

  readonly #onWritten = () => {
    if (!this.#isHeld || this.#isPending) return
    this.#isHeld = false
    this.#from.read(0)
  }

  #letGo(mayReuse: boolean): void {
    const { intake } = this.#from
    intake.take = undefined
    this.#isHeld = false
    if (intake.buffer === shared) return
    giveBack(intake.buffer, mayReuse)
    intake.buffer = shared
  }
}
