import type { EgressEvent, EventData } from './event.ts'

type Block = EventData<'network_blocked'>

const MAX_RECORDS_PER_SECOND = 100
const MAX_REMEMBERED = 10_000

interface Folded {
  readonly block: Block
  further: number
}

/**
 * Keeps repeated blocks from flooding the log. The first block of a way in, host, port and reason is a record at once;
 * further ones are counted and come as one record at each `flush`. Over 100 records a second or 10,000 remembered hosts,
 * blocks are only counted.
 */
export class BlockFolder {
  readonly #write: (event: EgressEvent) => void
  readonly #now: () => number
  #remembered = new Map<string, Folded>()
  #second = 0
  #recordsThisSecond = 0
  #overflow = 0
  #quiet = 0

  constructor(write: (event: EgressEvent) => void, now: () => number) {
    this.#write = write
    this.#now = now
  }

  add(block: Block, quiet: boolean): void {
    if (quiet) {
      this.#quiet++
      return
    }
    const key = `${block.via} ${block.reason} ${block.port} ${block.host}`
    const known = this.#remembered.get(key)
    if (known) known.further++
    else if (this.#remembered.size >= MAX_REMEMBERED || !this.#mayWrite()) this.#overflow++
    else {
      this.#remembered.set(key, { block, further: 0 })
      this.#write({ type: 'network_blocked', data: block })
    }
  }

  /** Writes what was counted. A host without a further block since the last time is forgotten. */
  flush(): void {
    const kept = new Map<string, Folded>()
    for (const [key, folded] of this.#remembered) {
      if (folded.further === 0) continue
      if (this.#mayWrite()) {
        this.#write({ type: 'network_blocked', data: { ...folded.block, count: folded.further } })
      } else this.#overflow += folded.further
      kept.set(key, { block: folded.block, further: 0 })
    }
    this.#remembered = kept
    if (this.#overflow > 0 || this.#quiet > 0) {
      const data = { count: this.#overflow, quiet: this.#quiet }
      this.#write({ type: 'network_blocked_summary', data })
    }
    this.#overflow = 0
    this.#quiet = 0
  }

  #mayWrite(): boolean {
    const second = Math.floor(this.#now() / 1000)
    if (second !== this.#second) {
      this.#second = second
      this.#recordsThisSecond = 0
    }
    return ++this.#recordsThisSecond <= MAX_RECORDS_PER_SECOND
  }
}
