import { TYPE } from './dns-message.ts'

/** How long look-ups of one name can be parts of one, in milliseconds. */
const WINDOW_MS = 2_000

/** Names that are remembered at a time. */
const MAX_REMEMBERED = 1_000

/** The types that a resolver asks for in one go. All others are one more. */
const TOGETHER: readonly number[] = [TYPE.A, TYPE.AAAA, TYPE.HTTPS, TYPE.SVCB]

interface Lookup {
  readonly since: number
  readonly types: Set<number>
}

/**
 * Tells a further part of a look-up from a further look-up: a resolver asks for A and AAAA (and HTTPS) of a name in one go, and
 * asks for each anew when it tries again. It remembers the last 1,000 names.
 */
export class DeniedLookups {
  readonly #now: () => number
  readonly #lookups = new Map<string, Lookup>()

  constructor(now: () => number) {
    this.#now = now
  }

  /** True if a query begins a look-up of the name, false if it is a further part of one. */
  begins(name: string, type: number): boolean {
    const now = this.#now()
    const kind = TOGETHER.includes(type) ? type : 0
    const known = this.#lookups.get(name)
    if (known !== undefined && now - known.since < WINDOW_MS && !known.types.has(kind)) {
      known.types.add(kind)
      return false
    }
    this.#lookups.delete(name)
    this.#lookups.set(name, { since: now, types: new Set([kind]) })
    if (this.#lookups.size > MAX_REMEMBERED) this.#forgetOldest()
    return true
  }

  #forgetOldest(): void {
    const [oldest] = this.#lookups.keys()
    if (oldest !== undefined) this.#lookups.delete(oldest)
  }
}
