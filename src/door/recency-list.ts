/** What can stand in one `RecencyList` at a time. */
export interface Listed<T> {
  older?: T | undefined
  newer?: T | undefined
}

/**
 * A list in order of use. A linked one: the first key of a `Map` is found only behind all that was deleted before it, so a
 * `Map` that is used up from its front takes longer the longer it is.
 */
export class RecencyList<T extends Listed<T>> {
  #oldest: T | undefined
  #newest: T | undefined

  /** The one that was not used for longest. */
  get oldest(): T | undefined {
    return this.#oldest
  }

  /** Puts in, as the newest, one that is not in the list. */
  add(item: T): void {
    item.older = this.#newest
    if (this.#newest === undefined) this.#oldest = item
    else this.#newest.newer = item
    this.#newest = item
  }

  /** Takes out one that is in the list. */
  remove(item: T): void {
    if (item.older === undefined) this.#oldest = item.newer
    else item.older.newer = item.newer
    if (item.newer === undefined) this.#newest = item.older
    else item.newer.older = item.older
    item.older = undefined
    item.newer = undefined
  }
}
