/** What a registry keeps: it writes down where. */
export interface Member {
  /** The place in the registry; -1 outside. */
  place: number
}

/**
 * Things that come and go by the thousand a second. A `Set` would do, but V8 keeps the former tables of a `Set` or `Map`
 * that was rebuilt, with all that was in them, until it next looks at everything: a fast proxy would drag its closed
 * connections along, and copy them at each small collection.
 */
export class Registry<T extends Member> {
  readonly #members: T[] = []

  get size(): number {
    return this.#members.length
  }

  add(member: T): void {
    if (member.place !== -1) return
    member.place = this.#members.length
    this.#members.push(member)
  }

  /** Answers false for what is not in it. */
  delete(member: T): boolean {
    const { place } = member
    const last = this.#members.at(-1)
    if (place === -1 || last === undefined) return false
    this.#members[place] = last
    last.place = place
    this.#members.pop()
    member.place = -1
    return true
  }

  /** All of them now; they may be deleted meanwhile. */
  all(): readonly T[] {
    return [...this.#members]
  }
}
