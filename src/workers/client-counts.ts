/** The primary's count of tunnels by client address, over all workers. */
export class ClientCounts<W> {
  readonly #most: number
  readonly #all = new Map<string, number>()
  readonly #ofWorker = new Map<W, Map<string, number>>()

  /** @param most the tunnels of one client */
  constructor(most: number) {
    this.#most = most
  }

  /** Counts one more; or answers how many the client has, if it may have no more. */
  enter(worker: W, client: string): number | undefined {
    const own = this.#all.get(client) ?? 0
    if (own >= this.#most) return own
    const counts = this.#ofWorker.get(worker) ?? new Map<string, number>()
    this.#ofWorker.set(worker, counts)
    change(counts, client, 1)
    change(this.#all, client, 1)
    return undefined
  }

  leave(worker: W, client: string): void {
    const counts = this.#ofWorker.get(worker)
    if (counts?.has(client) !== true) return
    change(counts, client, -1)
    change(this.#all, client, -1)
  }

  /** A worker has ended, and its tunnels with it. */
  forget(worker: W): void {
    for (const [client, count] of this.#ofWorker.get(worker) ?? [])
      change(this.#all, client, -count)
    this.#ofWorker.delete(worker)
  }
}

function change(counts: Map<string, number>, client: string, by: number): void {
  const count = (counts.get(client) ?? 0) + by
  if (count > 0) counts.set(client, count)
  else counts.delete(client)
}
