import type { EgressEvent, EventData } from './event.ts'

type Block = EventData<'network_blocked'>

const MAX_RECORDS_PER_SECOND = 100
const MAX_REMEMBERED = 10_000

/** What blocks that are counted together may differ in. A record of many says it if it holds for all. */
const DIFFERING = ['rule', 'origin', 'detail', 'address', 'sni'] as const
type Differing = (typeof DIFFERING)[number]

interface Folded {
  readonly block: Block
  further: number
  /** What was not the same in all of the further ones. */
  differing: ReadonlySet<Differing>
}

const NONE: ReadonlySet<Differing> = new Set()

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
    if (known) count(known, block)
    else if (this.#remembered.size >= MAX_REMEMBERED || !this.#mayWrite()) this.#overflow++
    else {
      this.#remembered.set(key, { block, further: 0, differing: NONE })
      this.#write({ type: 'network_blocked', data: block })
    }
  }

  /** Writes what was counted. A host without a further block since the last time is forgotten. */
  flush(): void {
    const kept = new Map<string, Folded>()
    for (const [key, folded] of this.#remembered) {
      if (folded.further === 0) continue
      if (this.#mayWrite()) {
        this.#write({ type: 'network_blocked', data: countedBlock(folded) })
      } else this.#overflow += folded.further
      kept.set(key, { block: folded.block, further: 0, differing: NONE })
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

function count(folded: Folded, block: Block): void {
  folded.further++
  for (const field of DIFFERING) {
    if (folded.block[field] === block[field] || folded.differing.has(field)) continue
    folded.differing = new Set([...folded.differing, field])
  }
}

function countedBlock({ block, further, differing }: Folded): Block {
  const fields = Object.entries(block).filter(([name]) => !differing.has(name as Differing))
  return { ...(Object.fromEntries(fields) as Block), count: further }
}
