import type { EgressEvent } from '../events/event.ts'

/** How long events are gathered for one message, in milliseconds. */
const GATHER_MS = 10
/** Events that are sent without waiting for more. */
const FULL_BATCH = 64
/** Events that may be on their way before more are lost: some MiB. */
const MOST_WAITING = 8_192

interface EventBatchesOptions {
  /** Events that may be on their way before more are lost. Default: 8,192. */
  readonly mostWaiting?: number
  /** Milliseconds since 1970. Default: `Date.now`. */
  readonly now?: () => number
}

/** Sends events; calls back when the channel has taken them. */
type SendEvents = (events: readonly EgressEvent[], done: () => void) => void

/**
 * Gathers the events of a worker for the primary, which has the log. Adding one never waits: what the channel does not
 * take in time is counted, and told as `events_lost` when there is room again.
 */
export class EventBatches {
  readonly #send: SendEvents
  readonly #most: number
  readonly #now: () => number
  #gathered: EgressEvent[] = []
  #timer: NodeJS.Timeout | undefined
  /** Events that the channel has not taken yet. */
  #onTheWay = 0
  #lost: { count: number; from_ts: string; to_ts: string } | undefined
  #onFlushed: (() => void) | undefined

  constructor(
    send: SendEvents,
    { mostWaiting = MOST_WAITING, now = Date.now }: EventBatchesOptions = {},
  ) {
    this.#send = send
    this.#most = mostWaiting
    this.#now = now
  }

  add(event: EgressEvent): void {
    if (this.#lost || this.#onTheWay + this.#gathered.length >= this.#most) {
      const ts = new Date(this.#now()).toISOString()
      this.#lost = {
        count: (this.#lost?.count ?? 0) + 1,
        from_ts: this.#lost?.from_ts ?? ts,
        to_ts: ts,
      }
      return
    }
    this.#gathered.push(event)
    // The first one after a pause goes at once.
    if (this.#timer === undefined || this.#gathered.length >= FULL_BATCH) this.#sendGathered()
  }

  /** Sends what there is; settles when the channel has taken all, what was lost included. */
  flush(): Promise<void> {
    return new Promise((resolve) => {
      this.#onFlushed = resolve
      this.#sendGathered()
      this.#settle()
    })
  }

  readonly #sendGathered = () => {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const events = this.#gathered
    if (events.length === 0) return
    this.#gathered = []
    this.#timer = setTimeout(this.#sendGathered, GATHER_MS)
    this.#onTheWay += events.length
    this.#send(events, () => {
      this.#onTheWay -= events.length
      this.#settle()
    })
  }

  #settle(): void {
    // Only with much room again: what is lost meanwhile belongs to the same record.
    if (this.#lost && this.#onTheWay + this.#gathered.length <= this.#most / 2) {
      this.#gathered.push({ type: 'events_lost', data: this.#lost })
      this.#lost = undefined
      this.#sendGathered()
    }
    if (this.#onFlushed === undefined || this.#onTheWay > 0 || this.#lost) return
    clearTimeout(this.#timer)
    this.#onFlushed()
  }
}
