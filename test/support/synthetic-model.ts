/** `SyntheticNames` as it is told, with no thought for time: what the real one is compared with. */
export class SyntheticModel {
  readonly #first: number
  readonly #count: number
  readonly #maxNames: number
  readonly #restMs: number
  readonly #room: number
  /** Names in the order of their use. */
  readonly #entries: { name: string; word: number; holds: number }[] = []
  readonly #dropped: { word: number; at: number }[] = []
  #given = 0

  constructor(first: number, count: number, maxNames: number, restMs: number) {
    this.#first = first
    this.#count = count
    this.#maxNames = Math.min(maxNames, Math.max(1, count - Math.ceil(count / 8)))
    this.#restMs = restMs
    this.#room = Math.min(count, this.#maxNames * 4)
  }

  get size(): number {
    return this.#entries.length
  }

  get names(): string[] {
    return this.#entries.map(({ name }) => name)
  }

  #find(name: string) {
    return this.#entries.find((one) => one.name === name)
  }

  #touch(name: string): void {
    const at = this.#entries.findIndex((one) => one.name === name)
    this.#entries.push(...this.#entries.splice(at, 1))
  }

  addressOf(name: string, now: number): number | undefined {
    const known = this.#find(name)
    if (known !== undefined) {
      this.#touch(name)
      return known.word
    }
    const victim =
      this.#entries.length < this.#maxNames
        ? undefined
        : this.#entries.find(({ holds }) => holds === 0)
    if (this.#entries.length >= this.#maxNames && victim === undefined) return undefined
    const rested = this.#dropped.find(({ at }) => now - at >= this.#restMs)
    const isCrowded = victim !== undefined && this.#dropped.length === this.#room
    const isFresh = !isCrowded && this.#given < this.#count
    if (!isFresh && rested === undefined) return undefined
    const word = isFresh ? this.#first + this.#given++ : (rested?.word ?? 0)
    if (!isFresh) this.#dropped.shift()
    if (victim !== undefined) {
      this.#entries.splice(this.#entries.indexOf(victim), 1)
      this.#dropped.push({ word: victim.word, at: now })
    }
    this.#entries.push({ name, word, holds: 0 })
    return word
  }

  nameOf(word: number): string | undefined {
    return this.#entries.find((one) => one.word === word)?.name
  }

  hold(name: string): boolean {
    const known = this.#find(name)
    if (known !== undefined) known.holds++
    return known !== undefined
  }

  release(name: string): void {
    const known = this.#find(name)
    if (known === undefined || known.holds === 0) return
    known.holds--
    if (known.holds === 0) this.#touch(name)
  }
}
