import { Socket as DatagramSocket } from 'node:dgram'
import { Server } from 'node:net'
import type { EgressError } from '../errors.ts'
import type { DoorServer, DoorSockets, DoorUse } from './door.ts'
import { prepareDoorServer } from './door-server.ts'
import type { Spawner } from './spawn.ts'

const MAX_COMPLAINT = 4_096

/** What every helper says that opens the sockets of a door and hands them over. */
export type SocketMessage =
  /** A socket comes with it. */
  | { readonly kind: 'socket'; readonly use: DoorUse | 'datagrams' }
  /** All of them have come. */
  | {
      readonly kind: 'opened'
      readonly sockets: number
      readonly taken: readonly number[]
      readonly missing?: string
    }
  | { readonly kind: 'fault'; readonly why: string }

interface Message {
  readonly kind: string
}

/** What a helper says beside its sockets and its faults. */
type Said<M extends Message> = Exclude<M, { readonly kind: 'socket' | 'fault' }>

/** The channel to a process that opens a door inside: what it says, in order, and the sockets that come with it. */
export class HelperChannel<M extends Message> {
  readonly #failed: (why: string) => EgressError
  readonly #messages: (Said<M> | Extract<SocketMessage, { kind: 'fault' }>)[] = []
  readonly #servers: DoorServer[] = []
  #datagrams: DatagramSocket | undefined
  #complaint = ''
  #fault: EgressError | undefined
  #isClosed = false
  #wake: () => void = () => undefined

  /** @param failed makes the failure of this helper */
  constructor(child: ReturnType<Spawner>, failed: (why: string) => EgressError) {
    this.#failed = failed
    child.stderr?.on('data', (chunk: Buffer) => {
      this.#complaint = (this.#complaint + chunk.toString()).slice(-MAX_COMPLAINT)
    })
    child.on('message', (message, handle: unknown) =>
      this.#take(message as SocketMessage | Said<M>, handle),
    )
  }

  /** What the helper wrote to its standard error, the end of it. */
  get complaint(): string {
    return this.#complaint.trim()
  }

  /** From now on sockets that arrive are closed. */
  close(): void {
    this.#isClosed = true
  }

  /** Whoever waits for a message gets this failure, once all that came before has been read. */
  fail(error: EgressError): void {
    this.#fault ??= error
    this.#wake()
  }

  /** Its next message. @throws {EgressError} when it tells of a fault, or has failed */
  async next(): Promise<Said<M>> {
    for (;;) {
      const message = this.#messages.shift()
      if (message?.kind === 'fault') throw this.#failed((message as { why: string }).why)
      if (message !== undefined) return message as Said<M>
      if (this.#fault !== undefined) throw this.#fault
      await new Promise<void>((resolve) => (this.#wake = resolve))
    }
  }

  /** All sockets of the door; none is left open if not all come. @throws {EgressError} as `next` does */
  async opened(): Promise<DoorSockets> {
    try {
      const message = (await this.next()) as Message
      const arrived = this.#servers.length + (this.#datagrams ? 1 : 0)
      if (!isOpened(message) || message.sockets !== arrived || arrived === 0) {
        throw this.#failed('not all sockets arrived')
      }
      const { taken, missing } = message
      return { servers: this.#servers, datagrams: this.#datagrams, taken, missing }
    } catch (error) {
      for (const { server } of this.#servers) server.close()
      this.#datagrams?.close()
      throw error
    }
  }

  #take(message: SocketMessage | Said<M>, handle: unknown): void {
    if (!isSocket(message)) {
      this.#messages.push(message as Said<M>)
      this.#wake()
    } else if (handle instanceof Server && message.use !== 'datagrams') {
      if (this.#isClosed) handle.close()
      else this.#servers.push({ server: prepareDoorServer(handle), use: message.use })
    } else if (handle instanceof DatagramSocket) {
      handle.on('error', () => undefined)
      if (this.#isClosed) handle.close()
      else this.#datagrams = handle
    }
  }
}

function isSocket(message: Message): message is Extract<SocketMessage, { kind: 'socket' }> {
  return message.kind === 'socket'
}

function isOpened(message: Message): message is Extract<SocketMessage, { kind: 'opened' }> {
  return message.kind === 'opened'
}
