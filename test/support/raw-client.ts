import { connect, type Socket } from 'node:net'
import type { Test } from 'tap'
import { type Answer, type AnswerOptions, takeAnswer } from './http-answer.ts'

/** How long anything may take before a test gives up, in milliseconds. */
const PATIENCE_MS = 4_000

/** A client that sends the very bytes it is told to, and keeps what comes back. */
export interface RawClient {
  readonly socket: Socket
  /** Everything that came, as latin1. */
  readonly text: string
  readonly bytes: Buffer
  /** True once the other side has ended properly. */
  readonly isEnded: boolean
  readonly isClosed: boolean
  readonly error: NodeJS.ErrnoException | undefined
  /** Strings go out as latin1: one character, one byte. */
  send(data: string | Buffer): void
  /** Sends the pieces one after the other, each in a segment of its own. */
  sendPieces(pieces: readonly (string | Buffer)[], pauseMs?: number): Promise<void>
  end(): void
  /** Ends with RST. */
  reset(): void
  until(wanted: string | RegExp | number): Promise<string>
  /** Waits for the end of the connection, whichever way. */
  closed(): Promise<void>
  /** The next HTTP answer that is whole. */
  answer(options?: AnswerOptions): Promise<Answer>
}

interface RawOptions {
  readonly host?: string
  /** What is sent at once. */
  readonly send?: string | Buffer
  /** Keeps this side open after the other one ended. Default: true. */
  readonly allowHalfOpen?: boolean
  /** Reads nothing until `socket.resume()`. */
  readonly isPaused?: boolean
}

/** Opens a raw client to a port of this machine; it is closed with the test. */
export async function openRaw(t: Test, port: number, options: RawOptions = {}): Promise<RawClient> {
  const { host = '127.0.0.1', send, allowHalfOpen = true, isPaused = false } = options
  const socket = connect({ host, port, allowHalfOpen, noDelay: true })
  const client = rawClientOf(socket, isPaused)
  t.teardown(() => socket.destroy())
  await new Promise<void>((resolve, reject) => {
    socket.once('connect', resolve)
    socket.once('error', reject)
  })
  if (send !== undefined) client.send(send)
  return client
}

/** The raw client that a connected socket is. */
export function rawClientOf(socket: Socket, isPaused = false): RawClient {
  let chunks: Buffer[] = []
  let taken = 0
  let isEnded = false
  let isClosed = false
  let error: NodeJS.ErrnoException | undefined
  const waiting = new Set<() => void>()
  const wake = () => {
    for (const check of waiting) check()
  }
  const all = () => {
    if (chunks.length > 1) chunks = [Buffer.concat(chunks)]
    return chunks[0] ?? Buffer.alloc(0)
  }
  socket.on('data', (chunk: Buffer) => {
    chunks.push(chunk)
    wake()
  })
  if (isPaused) socket.pause()
  socket.on('end', () => {
    isEnded = true
    wake()
  })
  socket.on('error', (found) => (error = found))
  socket.on('close', () => {
    isClosed = true
    wake()
  })
  const waitFor = <T>(what: string, look: () => T | undefined): Promise<T> =>
    new Promise((resolve, reject) => {
      const stop = () => {
        clearTimeout(timer)
        waiting.delete(check)
      }
      const check = () => {
        const found = look()
        if (found !== undefined) {
          stop()
          resolve(found)
        } else if (isEnded || isClosed) {
          stop()
          reject(new Error(`closed without ${what}; came: ${shown(all())}`))
        }
      }
      const timer = setTimeout(() => {
        stop()
        reject(new Error(`no ${what} in time; came: ${shown(all())}`))
      }, PATIENCE_MS)
      waiting.add(check)
      check()
    })
  return {
    socket,
    get text() {
      return all().toString('latin1')
    },
    get bytes() {
      return all()
    },
    get isEnded() {
      return isEnded
    },
    get isClosed() {
      return isClosed
    },
    get error() {
      return error
    },
    send(data) {
      socket.write(data, 'latin1')
    },
    async sendPieces(pieces, pauseMs = 1) {
      for (const piece of pieces) {
        socket.write(piece, 'latin1')
        await new Promise((resolve) => setTimeout(resolve, pauseMs))
      }
    },
    end() {
      socket.end()
    },
    reset() {
      if (socket.writableEnded && !socket.writableFinished) socket.destroy()
      else if (!socket.destroyed) socket.resetAndDestroy()
    },
    until(wanted) {
      return waitFor(String(wanted), () => {
        const text = all().toString('latin1')
        const isThere =
          typeof wanted === 'number'
            ? text.length >= wanted
            : typeof wanted === 'string'
              ? text.includes(wanted)
              : wanted.test(text)
        return isThere ? text : undefined
      })
    },
    async closed() {
      await waitFor('an end', () => (isEnded || isClosed ? true : undefined))
      if (!isClosed) socket.end()
    },
    answer(options = {}) {
      return waitFor('a whole answer', () => {
        const found = takeAnswer(all().subarray(taken), isEnded, options)
        if (found) taken += found.length
        return found
      })
    },
  }
}

function shown(bytes: Buffer): string {
  return JSON.stringify(bytes.toString('latin1').slice(0, 400))
}
