import type { Socket } from 'node:net'

/** Counts the tunnels that are open, over all and by client. A client's connection has one at most. */
export class Slots {
  readonly #holders = new Set<Socket>()
  /** How many each client address has, from when somebody first asks: to ask a socket for its address is a system call. */
  #byClient: Map<string, number> | undefined

  /** How many there are. */
  get size(): number {
    return this.#holders.size
  }

  /** How many the client of a connection has. */
  ofClient(client: Socket): number {
    if (this.#byClient === undefined) {
      this.#byClient = new Map()
      for (const holder of this.#holders) this.#count(holder, 1)
    }
    return this.#byClient.get(addressOf(client)) ?? 0
  }

  take(client: Socket): void {
    this.#holders.add(client)
    this.#count(client, 1)
  }

  /** Does nothing for a connection that has none. */
  free(client: Socket): void {
    if (this.#holders.delete(client)) this.#count(client, -1)
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
