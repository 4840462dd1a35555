import type { Socket } from 'node:net'
import { type Flight, MAX_FLIGHT_BYTES, readFlight } from './first-flight.ts'
import { takeBytes } from './pooled-socket.ts'

/** What a client sent first, and what that is. Nothing of it has been passed on. */
export interface Opening {
  readonly bytes: Buffer
  readonly flight: Flight
}

const NOTHING = Buffer.alloc(0)
const LINE_END = Buffer.from('\n')
const TLS_HANDSHAKE = 22

/** Reads what a client sends first until it can be told what it is, or until the client ends its side. */
export class OpeningReader {
  readonly #client: Socket
  readonly #timeoutMs: number
  readonly #onOpening: (opening: Opening) => void
  #bytes = NOTHING
  #timer: NodeJS.Timeout | undefined
  #stop: (() => void) | undefined
  #isSettled = false

  /**
   * @param timeoutMs milliseconds from the first byte; 0 is for ever
   * @param onOpening called once, with all that was read
   */
  constructor(client: Socket, timeoutMs: number, onOpening: (opening: Opening) => void) {
    this.#client = client
    this.#timeoutMs = timeoutMs
    this.#onOpening = onOpening
  }

  start(): void {
    if (this.#client.readableEnded) this.end()
    else this.#stop = takeBytes(this.#client, this.#onBytes)
  }

  /** To be called when the client has ended its side, or is gone. */
  end(): void {
    if (this.#isSettled) return
    this.#stop?.()
    const isUnfinished = this.#bytes[0] === TLS_HANDSHAKE || this.#isLine()
    this.#settle(isUnfinished ? this.#unfinished() : { kind: 'not-tls' })
  }

  readonly #onBytes = (bytes: Buffer) => {
    this.#bytes =
      this.#bytes.length === 0 ? Buffer.from(bytes) : Buffer.concat([this.#bytes, bytes])
    const flight = readFlight(this.#bytes.subarray(0, MAX_FLIGHT_BYTES))
    if (flight.kind === 'more') {
      if (this.#timeoutMs > 0) this.#timer ??= setTimeout(this.#onTimeout, this.#timeoutMs)
      return true
    }
    this.#settle(flight)
    return false
  }

  readonly #onTimeout = () => {
    this.#stop?.()
    this.#settle(this.#unfinished())
  }

  #settle(flight: Flight): void {
    this.#isSettled = true
    clearTimeout(this.#timer)
    this.#onOpening({ bytes: this.#bytes, flight })
  }

  #unfinished(): Flight {
    return { kind: 'incomplete', tls: this.#bytes[0] === TLS_HANDSHAKE }
  }

  /** An end may finish a request line for a server that does not insist on its LF. */
  #isLine(): boolean {
    return readFlight(Buffer.concat([this.#bytes, LINE_END])).kind === 'http1'
  }
}
