/**
 * Addresses that were given up, the one that has rested longest first. A ring in two typed arrays: its memory is bounded
 * and every call takes the same time.
 */
export class RestingAddresses {
  readonly #words: Uint32Array
  /** When each was given up. */
  readonly #since: Float64Array
  readonly #restMs: number
  #first = 0
  #size = 0

  /**
   * @param room how many addresses can rest at a time, 12 bytes each
   * @param restMs how long each rests, in milliseconds
   */
  constructor(room: number, restMs: number) {
    this.#words = new Uint32Array(room)
    this.#since = new Float64Array(room)
    this.#restMs = restMs
  }

  /** True if no further address can rest. */
  get isFull(): boolean {
    return this.#size === this.#words.length
  }

  /** Puts an address to rest, as the 32-bit word that it is. There has to be room. */
  add(word: number, now: number): void {
    if (this.isFull) throw new TypeError('no room to rest')
    const place = (this.#first + this.#size) % this.#words.length
    this.#words[place] = word
    this.#since[place] = now
    this.#size++
  }

  /** Takes the address that has rested longest; undefined if it has not rested long enough, or none rests. */
  take(now: number): number | undefined {
    if (this.#size === 0 || now - (this.#since[this.#first] ?? now) < this.#restMs) return undefined
    const word = this.#words[this.#first]
    this.#first = (this.#first + 1) % this.#words.length
    this.#size--
    return word
  }
}
