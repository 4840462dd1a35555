/** How long a tunnel waits for the answer of the primary, in milliseconds. */
const PATIENCE_MS = 1_000

/** What the primary says of one more tunnel of a client; `own`: it has so many, and may have no more. */
export type Entry = 'entered' | 'silence' | { readonly own: number }

interface EntryCalls {
  enter(id: number, client: string): void
  leave(client: string): void
}

/** A worker's side of the count by client address: the primary is asked for each tunnel. */
export class ClientEntries {
  readonly #calls: EntryCalls
  readonly #patienceMs: number
  readonly #waiting = new Map<number, (own: number | undefined) => void>()
  #latest = 0

  /** @param patienceMs how long to wait for the primary. Default: 1,000 */
  constructor(calls: EntryCalls, patienceMs = PATIENCE_MS) {
    this.#calls = calls
    this.#patienceMs = patienceMs
  }

  enter(client: string): Promise<Entry> {
    const id = ++this.#latest
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        // The tunnel is refused: if it is counted late, it is over already.
        this.#waiting.set(id, (own) => own === undefined && this.leave(client))
        resolve('silence')
      }, this.#patienceMs)
      this.#waiting.set(id, (own) => {
        clearTimeout(timer)
        resolve(own === undefined ? 'entered' : { own })
      })
      this.#calls.enter(id, client)
    })
  }

  /** The answer of the primary. */
  answer(id: number, own: number | undefined): void {
    const settle = this.#waiting.get(id)
    this.#waiting.delete(id)
    settle?.(own)
  }

  leave(client: string): void {
    this.#calls.leave(client)
  }
}
