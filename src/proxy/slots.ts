import type { Socket } from 'node:net'
import { type Member, Registry } from './registry.ts'

const SLOT = Symbol('slot')

type Holder = Socket & { [SLOT]?: Slot | undefined }

interface Slot extends Member {
  readonly holder: Holder
}

/** Counts the tunnels that are open, over all and by client. A client's connection has one at most. */
export class Slots {
  readonly #slots = new Registry<Slot>()
  /** How many each client address has, from when somebody first asks: to ask a socket for its address is a system call. */
  #byClient: Map<string, number> | undefined

  /** How many there are. */
  get size(): number {
    return this.#slots.size
  }

  /** How many the client of a connection has. */
  ofClient(client: Socket): number {
    if (this.#byClient === undefined) {
      this.#byClient = new Map()
      for (const { holder } of this.#slots.all()) this.#count(holder, 1)
    }
    return this.#byClient.get(addressOf(client)) ?? 0
  }

  take(client: Holder): void {
    const slot = { holder: client, place: -1 }
    client[SLOT] = slot
    this.#slots.add(slot)
    this.#count(client, 1)
  }

  /** Does nothing for a connection that has none. */
  free(client: Holder): void {
    const slot = client[SLOT]
    if (slot === undefined) return
    client[SLOT] = undefined
    this.#slots.delete(slot)
    this.#count(client, -1)
  }

  #count(client: Socket, change: number): void {
    if (this.#byClient === undefined) return
    const address = addressOf(client)
    const count = (this.#byClient.get(address) ?? 0) + change
    if (count > 0) this.#byClient.set(address, count)
    else this.#byClient.delete(address)
  }
}

/** The client's address; empty on a unix socket, whose clients are one. */
function addressOf(socket: Socket): string {
  return socket.remoteAddress ?? ''
}
