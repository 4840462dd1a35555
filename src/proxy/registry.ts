/** What a registry keeps: it writes down where. */
export interface Member {
  /** The place in the registry; -1 outside. */
  place: number
}

/**
 * Things that come and go by the thousand a second: an array, in which each knows its place, so that to add and to delete
 * is one step and nothing of what has gone stays in it.
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
