import type { Socket } from 'node:net'
import type { Limits } from './limits.ts'
import { type Member, Registry } from './registry.ts'

/** Why there is no slot, and the status that says so. */
export interface NoSlot {
  readonly detail: string
  readonly status: 429 | 503
}

/** Whom a proxy asks for a slot for each tunnel. */
export interface SlotKeeper {
  /**
   * Gives the connection a slot, until it is freed, or says why there is none. A promise is for what somebody else has to be
   * asked; of a connection that is freed meanwhile nothing is kept.
   */
  take(client: Socket, limits: Limits): NoSlot | undefined | Promise<NoSlot | undefined>
  /** Does nothing for a connection that has none. */
  free(client: Socket): void
}

const SLOT = Symbol('slot')

type Holder = Socket & { [SLOT]?: Slot | undefined }

interface Slot extends Member {
  readonly holder: Holder
}

/** The slots of one process: counts the tunnels that are open, over all and by client. A connection has one at most. */
export class Slots implements SlotKeeper {
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

  take(client: Holder, limits: Limits): NoSlot | undefined {
    const { maxTunnels, maxTunnelsPerClient } = limits
    if (maxTunnelsPerClient > 0) {
      const own = this.ofClient(client)
      if (own >= maxTunnelsPerClient) return clientIsFull(own)
    }
    if (this.size >= maxTunnels) return allAreTaken(this.size)
    const slot = { holder: client, place: -1 }
    client[SLOT] = slot
    this.#slots.add(slot)
    this.#count(client, 1)
    return undefined
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

/** A client has as many tunnels as it may have. */
export function clientIsFull(own: number): NoSlot {
  return { detail: `this client has ${own} tunnels, the most it may have`, status: 429 }
}

/** There are as many tunnels as there may be. */
export function allAreTaken(tunnels: number): NoSlot {
  return { detail: `${tunnels} tunnels are open, the most there may be`, status: 503 }
}

/** The client's address; empty on a unix socket, whose clients are one. */
export function addressOf(socket: Socket): string {
  return socket.remoteAddress ?? ''
}
