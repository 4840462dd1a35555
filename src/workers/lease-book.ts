/** How long a round waits for workers that do not answer, in milliseconds. */
const ROUND_MS = 250

/** How the book speaks to a worker. */
export interface LeaseCalls<W> {
  /** Answers what the worker asked for. */
  lease(worker: W, slots: number): void
  /** Asks for what the worker does not use; it answers with {@link LeaseBook.giveBack}. */
  recall(worker: W, round: number): void
}

interface LeaseBookOptions {
  /** How many processes lease. */
  readonly workers: number
  /** How long a round waits for workers that do not answer, in milliseconds. Default: 250. */
  readonly roundMs?: number
}

/** Everybody is asked what is not in use, before anybody is told that there is no more. */
interface Round<W> {
  readonly number: number
  /** Who asked before it began. Who asks later has the next one. */
  readonly asking: ReadonlySet<W>
  /** Who has not answered yet. */
  readonly waitsFor: Set<W>
  readonly timer: NodeJS.Timeout
}

/**
 * The primary's book of tunnel slots. Every slot is free or leased to one worker, so that all of them together never use
 * more than there are; and a worker is only told that there is none when nobody sits on one that is not in use.
 *
 * Leases become smaller as slots become rare: a worker asks seldom while there are many.
 */
export class LeaseBook<W> {
  readonly #calls: LeaseCalls<W>
  readonly #workers: number
  readonly #roundMs: number
  readonly #leased = new Map<W, number>()
  /** Who waits for how many, first come first served. */
  readonly #asked = new Map<W, number>()
  #free: number
  #round: Round<W> | undefined
  #rounds = 0

  constructor(
    slots: number,
    calls: LeaseCalls<W>,
    { workers, roundMs = ROUND_MS }: LeaseBookOptions,
  ) {
    this.#free = slots
    this.#calls = calls
    this.#workers = workers
    this.#roundMs = roundMs
  }

  /** A worker comes; answers its first lease. */
  join(worker: W): number {
    this.#leased.set(worker, 0)
    return this.#lease(worker, this.#portion())
  }

  /** A worker has no slot left and needs so many. It asks again only when it has been answered. */
  ask(worker: W, slots: number): void {
    if (!this.#leased.has(worker)) return
    this.#asked.set(worker, slots)
    this.#settle()
  }

  /** The answer of a worker to a recall. */
  giveBack(worker: W, round: number, slots: number): void {
    const leased = this.#leased.get(worker)
    if (leased === undefined) return
    this.#leased.set(worker, leased - slots)
    this.#free += slots
    if (this.#round?.number === round) this.#round.waitsFor.delete(worker)
    this.#settle()
  }

  /** A worker is gone, and its tunnels with it. */
  leave(worker: W): void {
    this.#free += this.#leased.get(worker) ?? 0
    this.#leased.delete(worker)
    this.#asked.delete(worker)
    this.#round?.waitsFor.delete(worker)
    this.#settle()
  }

  /** Answers whom there is an answer for. */
  #settle(): void {
    for (const [worker, slots] of this.#asked) {
      if (this.#free >= slots) this.#answer(worker, Math.max(slots, this.#portion()))
    }
    if (this.#round && this.#isOver(this.#round)) {
      const { asking, timer } = this.#round
      clearTimeout(timer)
      this.#round = undefined
      for (const worker of asking) {
        const slots = this.#asked.get(worker)
        if (slots !== undefined) this.#answer(worker, slots)
      }
    }
    if (this.#asked.size > 0 && this.#round === undefined) this.#beginRound()
  }

  /** Everybody has said what is not in use, or nobody waits to hear it any more. */
  #isOver({ asking, waitsFor }: Round<W>): boolean {
    return waitsFor.size === 0 || ![...asking].some((worker) => this.#asked.has(worker))
  }

  #beginRound(): void {
    const round: Round<W> = {
      number: ++this.#rounds,
      asking: new Set(this.#asked.keys()),
      waitsFor: new Set(this.#leased.keys()),
      timer: setTimeout(() => {
        round.waitsFor.clear()
        this.#settle()
      }, this.#roundMs),
    }
    this.#round = round
    for (const worker of round.waitsFor) this.#calls.recall(worker, round.number)
  }

  #answer(worker: W, slots: number): void {
    this.#asked.delete(worker)
    this.#calls.lease(worker, this.#lease(worker, slots))
  }

  #lease(worker: W, slots: number): number {
    const leased = Math.min(slots, this.#free)
    this.#free -= leased
    this.#leased.set(worker, (this.#leased.get(worker) ?? 0) + leased)
    return leased
  }

  /** What a worker gets at once: half of its share of what is free. */
  #portion(): number {
    return Math.ceil(this.#free / (2 * this.#workers))
  }
}
