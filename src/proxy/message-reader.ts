import type { Socket } from 'node:net'
import { takeBytes } from './pooled-socket.ts'
import type { SocksRead } from './socks.ts'

type Message<T> = Exclude<SocksRead<T>, { readonly kind: 'more' }>

const GONE = { kind: 'bad', why: 'the client ended in the middle of a message' } as const
const LATE = { kind: 'bad', why: 'the messages did not come in time' } as const

/** Reads message after message from a client, all of them within one time. */
export class MessageReader {
  readonly #client: Socket
  readonly #timer: NodeJS.Timeout | undefined
  #bytes: Buffer
  #fault: typeof GONE | typeof LATE | undefined
  #wake: () => void = () => undefined

  /**
   * @param first what the client has sent so far
   * @param timeoutMs milliseconds for all messages; 0 is for ever
   */
  constructor(client: Socket, first: Buffer, timeoutMs: number) {
    this.#client = client
    this.#bytes = first
    if (timeoutMs > 0) this.#timer = setTimeout(() => this.#fail(LATE), timeoutMs)
    client.on('end', this.#onGone)
    client.on('close', this.#onGone)
    if (client.readableEnded) this.#onGone()
  }

  /** The next message. One that is bad is the last. */
  async next<T>(read: (bytes: Buffer) => SocksRead<T>): Promise<Message<T>> {
    for (;;) {
      const result = read(this.#bytes)
      if (result.kind === 'message') {
        this.#bytes = this.#bytes.subarray(result.length)
        return result
      }
      const fault = result.kind === 'bad' ? result : this.#fault
      if (fault !== undefined) return fault
      await this.#more()
    }
  }

  /** Lets go of the client; answers what it has sent beyond the messages. */
  release(): Buffer {
    clearTimeout(this.#timer)
    this.#client.removeListener('end', this.#onGone)
    this.#client.removeListener('close', this.#onGone)
    return this.#bytes
  }

  async #more(): Promise<void> {
    await new Promise<void>((resolve) => {
      const stop = takeBytes(this.#client, (bytes) => {
        this.#bytes = Buffer.concat([this.#bytes, bytes])
        resolve()
        return false
      })
      this.#wake = () => {
        stop()
        resolve()
      }
    })
    this.#wake = () => undefined
  }

  #fail(fault: typeof GONE | typeof LATE): void {
    this.#fault ??= fault
    this.#wake()
  }

  readonly #onGone = () => this.#fail(GONE)
}
