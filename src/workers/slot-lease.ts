/** How long a tunnel waits for the answer of the primary, in milliseconds. */
const PATIENCE_MS = 1_000

/** What comes of waiting for a slot: one, none, or no answer. */
export type Waited = 'slot' | 'none' | 'silence'

interface Waiter {
  /** True once it is among those that the primary was asked for. */
  isAsked: boolean
  readonly settle: (waited: Waited) => void
}

/** A worker's side of the leases: the slots it may use without asking, and who waits for more. */
export class SlotLease {
  readonly #ask: (slots: number) => void
  readonly #patienceMs: number
  #leased: number
  #used = 0
  #waiters: Waiter[] = []
  #isAsking = false

  /**
   * @param leased the slots to begin with
   * @param ask asks the primary for so many more; it answers with {@link SlotLease.add}
   * @param patienceMs how long to wait for that. Default: 1,000
   */
  constructor(leased: number, ask: (slots: number) => void, patienceMs = PATIENCE_MS) {
    this.#leased = leased
    this.#ask = ask
    this.#patienceMs = patienceMs
  }

  /** Takes a slot of the lease, if one is left. */
  tryTake(): boolean {
    if (this.#used >= this.#leased) return false
    this.#used++
    return true
  }

  /** Takes a slot, and asks for one if none is left. */
  take(): Promise<Waited> {
    if (this.tryTake()) return Promise.resolve('slot')
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.#waiters = this.#waiters.filter((one) => one !== waiter)
        resolve('silence')
      }, this.#patienceMs)
      const waiter: Waiter = {
        isAsked: false,
        settle(waited) {
          clearTimeout(timer)
          resolve(waited)
        },
      }
      this.#waiters.push(waiter)
      this.#askForWaiters()
    })
  }

  /** A slot that was taken is used no more: who waits has it now. */
  free(): void {
    this.#used--
    this.#serveWaiters()
  }

  /** What the primary answers: so many more. If they are too few, there are no more. */
  add(slots: number): void {
    this.#isAsking = false
    this.#leased += slots
    this.#serveWaiters()
    const left = this.#waiters
    this.#waiters = left.filter(({ isAsked }) => !isAsked)
    for (const waiter of left) if (waiter.isAsked) waiter.settle('none')
    this.#askForWaiters()
  }

  /** Gives back what is not in use; answers how many that are. */
  giveBack(): number {
    const unused = this.#leased - this.#used
    this.#leased = this.#used
    return unused
  }

  #serveWaiters(): void {
    while (this.#waiters.length > 0 && this.tryTake()) this.#waiters.shift()?.settle('slot')
  }

  #askForWaiters(): void {
    if (this.#isAsking || this.#waiters.length === 0) return
    this.#isAsking = true
    for (const waiter of this.#waiters) waiter.isAsked = true
    this.#ask(this.#waiters.length)
  }
}
