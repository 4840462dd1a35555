import { EgressError } from '../errors.ts'
import type { IpAddress } from '../policy/address.ts'
import { parseSystemAddress } from './local-addresses.ts'

/** One address that a name has. */
export interface ResolverAnswer {
  /** An IPv4 or IPv6 address as text. */
  readonly address: string
  /** The port to dial instead of the one asked for. Default: the one asked for. */
  readonly port?: number
  /** True if the operator gave the address by hand: it is exempt from the floor, except metadata and own listeners. */
  readonly given?: boolean
}

/**
 * Looks a canonical name up. The port is for resolvers that answer by service. An empty list means that there is no
 * address. Every answer is vetted before it is dialled.
 */
export type Resolver = (name: string, port: number) => Promise<readonly ResolverAnswer[]>

/** An answer, read. */
export interface ResolvedAddress {
  readonly ip: IpAddress
  readonly port: number
  readonly given: boolean
}

/** How long equal questions get the same answer, in milliseconds: getaddrinfo does not say how long it may. */
const CACHE_MS = 1_000
/** Look-ups under way at a time, over all names. */
const MAX_PENDING = 512
const MAX_CACHED = 10_000

interface Entry {
  readonly addresses: Promise<readonly ResolvedAddress[]>
  /** The same, once they are there. */
  known: readonly ResolvedAddress[] | undefined
  expiresAt: number
}

/** Joins equal look-ups, keeps answers for a second, and bounds time and number. */
export class LookupCache {
  readonly #entries = new Map<string, Entry>()
  readonly #resolver: Resolver
  readonly #now: () => number
  #pending = 0

  constructor(resolver: Resolver, now: () => number) {
    this.#resolver = resolver
    this.#now = now
  }

  /** How many look-ups are under way. */
  get pending(): number {
    return this.#pending
  }

  /** The addresses of a name that was asked for within the last second; undefined if it was not, or is not answered. */
  known(name: string, port: number, generation: number): readonly ResolvedAddress[] | undefined {
    const entry = this.#entries.get(keyOf(name, port, generation))
    return entry && this.#now() < entry.expiresAt ? entry.known : undefined
  }

  /**
   * The addresses of a name, in the resolver's order.
   *
   * @param timeoutMs how long this caller waits; 0 is for ever
   * @throws {EgressError} RESOLVE_FAILED, RESOLVE_TIMEOUT
   */
  async resolve(
    name: string,
    port: number,
    generation: number,
    timeoutMs: number,
  ): Promise<readonly ResolvedAddress[]> {
    const addresses = await withTimeout(this.#ask(name, port, generation), timeoutMs, name)
    if (addresses.length === 0) throw new EgressError('RESOLVE_FAILED', `${name} has no address`)
    return addresses
  }

  #ask(name: string, port: number, generation: number): Promise<readonly ResolvedAddress[]> {
    const key = keyOf(name, port, generation)
    const asked = this.#entries.get(key)
    if (asked && this.#now() < asked.expiresAt) return asked.addresses
    if (this.#pending >= MAX_PENDING) {
      return Promise.reject(
        new EgressError('RESOLVE_TIMEOUT', `${MAX_PENDING} look-ups are under way`),
      )
    }
    this.#pending++
    const addresses = this.#look(name, port)
    const entry: Entry = { addresses, known: undefined, expiresAt: Infinity }
    const settle = (lifetimeMs: number) => {
      this.#pending--
      entry.expiresAt = this.#now() + lifetimeMs
    }
    addresses.then(
      (found) => {
        if (found.length > 0) entry.known = found
        settle(CACHE_MS)
      },
      () => settle(0),
    )
    this.#entries.delete(key)
    this.#entries.set(key, entry)
    this.#forgetOldest()
    return addresses
  }

  async #look(name: string, port: number): Promise<readonly ResolvedAddress[]> {
    let answers: readonly ResolverAnswer[]
    try {
      answers = await this.#resolver(name, port)
    } catch (error) {
      if (error instanceof EgressError) throw error
      const code = (error as NodeJS.ErrnoException).code
      throw new EgressError('RESOLVE_FAILED', `${name} cannot be resolved (${code ?? 'error'})`, {
        cause: error,
      })
    }
    return readAnswers(answers, port)
  }

  #forgetOldest(): void {
    const now = this.#now()
    for (const [key, entry] of this.#entries) {
      if (entry.expiresAt === Infinity) continue
      if (this.#entries.size <= MAX_CACHED && entry.expiresAt > now) return
      this.#entries.delete(key)
    }
  }
}

function keyOf(name: string, port: number, generation: number): string {
  return `${generation} ${port} ${name}`
}

function readAnswers(answers: readonly ResolverAnswer[], port: number): readonly ResolvedAddress[] {
  const addresses: ResolvedAddress[] = []
  for (const answer of answers) {
    const ip = parseSystemAddress(answer.address)
    const dialPort = answer.port ?? port
    if (ip && isPort(dialPort)) addresses.push({ ip, port: dialPort, given: answer.given === true })
  }
  return addresses
}

function isPort(port: number): boolean {
  return Number.isInteger(port) && port >= 1 && port <= 65535
}

async function withTimeout<T>(promise: Promise<T>, timeoutMs: number, name: string): Promise<T> {
  if (timeoutMs === 0) return promise
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new EgressError('RESOLVE_TIMEOUT', `${name} was not resolved within ${timeoutMs} ms`))
    }, timeoutMs)
  })
  try {
    return await Promise.race([promise, timeout])
  } finally {
    clearTimeout(timer)
  }
}
