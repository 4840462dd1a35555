import {
  type Cidr,
  cidrContains,
  formatIp,
  type IpAddress,
  lastOf,
  parseIpv4,
  parseIpv6,
  unmap,
} from '../policy/address.ts'
import { type Listed, RecencyList } from './recency-list.ts'
import { RestingAddresses } from './resting-addresses.ts'

/** The bounds of a `SyntheticNames`. */
export interface SyntheticLimits {
  /** Names that have an address at a time. Default 65,536. */
  readonly maxNames?: number
  /** How long an address that was taken from a name is given to no other one, in milliseconds. Default 600,000; 0: not at all. */
  readonly restMs?: number
}

interface Entry extends Listed<Entry> {
  readonly name: string
  readonly word: number
  /** Connections that are open. */
  holds: number
}

const MAX_NAMES = 65_536
const REST_MS = 600_000

/** Addresses that rest at a time for each name that there may be: names that come and go at 400 a second. */
const RESTING_PER_NAME = 4

/** The first address that can be a name's: behind the address of the network and the stub's own. */
const FIRST_PLACE = 2

/** The address of the stub resolver: the first host of the range, 127.64.0.1 of 127.64.0.0/10. */
export function stubAddress(range: Cidr): string {
  return dotted(wordOf(range.first) + 1)
}

/**
 * Addresses that stand for names inside a sandbox, where they lead to the door alone. Every call takes the same time, however many names there are.
 *
 * Addresses are given in the order of the range, and when it has been gone through, in the order in which they were given
 * up: a program that keeps an address for hours meets nobody, and not another host. What rests is a ring of fixed
 * size; while it is full and its first address has not rested long enough, no name is dropped and no new one gets an address.
 */
export class SyntheticNames {
  readonly #range: Cidr
  readonly #now: () => number
  readonly #maxNames: number
  readonly #resting: RestingAddresses
  readonly #byName = new Map<string, Entry>()
  readonly #byWord = new Map<number, Entry>()
  /** The names that nobody holds. */
  readonly #idle = new RecencyList<Entry>()
  /** The next address that was never given. */
  #fresh: number
  /** The last address of the range, which is never given. */
  readonly #last: number

  /**
   * @param range an IPv4 range, a /29 or wider: a /30 gives its one address once, and what is smaller none
   * @param now a clock in milliseconds that never goes back
   */
  constructor(range: Cidr, now: () => number, limits: SyntheticLimits = {}) {
    if (range.first.family !== 4) throw new TypeError('synthetic addresses are IPv4')
    this.#range = range
    this.#now = now
    this.#fresh = wordOf(range.first) + FIRST_PLACE
    this.#last = wordOf(lastOf(range))
    const addresses = Math.max(0, this.#last - this.#fresh)
    // Of a small range an eighth is kept back to rest in, or else the names that came first would stay for ever.
    const most = Math.max(1, addresses - Math.ceil(addresses / 8))
    this.#maxNames = Math.min(limits.maxNames ?? MAX_NAMES, most)
    const room = Math.min(addresses, this.#maxNames * RESTING_PER_NAME)
    this.#resting = new RestingAddresses(room, limits.restMs ?? REST_MS)
  }

  /** How many names have an address. */
  get size(): number {
    return this.#byName.size
  }

  /**
   * The address of a name, in dotted form, made when it is first asked for. Undefined: none can be given now. It counts as
   * use of the name.
   *
   * @param name in canonical form
   */
  addressOf(name: string): string | undefined {
    const known = this.#byName.get(name)
    if (known === undefined) return this.#give(name)
    this.#use(known)
    return dotted(known.word)
  }

  /** The name that an address stands for; undefined if it stands for none. */
  nameOf(address: string): string | undefined {
    const ip = readAddress(address)
    return ip?.family === 4 ? this.#byWord.get(wordOf(ip))?.name : undefined
  }

  /** True if the address lies in the range, whether it stands for a name or not. */
  has(address: string): boolean {
    const ip = readAddress(address)
    return ip !== undefined && cidrContains(this.#range, ip)
  }

  /**
   * A connection to the name is open: the name is not dropped before it is released as often as it was held.
   *
   * @returns false if the name has no address any more. Then nothing is held, and nothing is to be released
   */
  hold(name: string): boolean {
    const entry = this.#byName.get(name)
    if (entry === undefined) return false
    if (entry.holds === 0) this.#idle.remove(entry)
    entry.holds++
    return true
  }

  /** A connection to the name is closed. It counts as use of the name. */
  release(name: string): void {
    const entry = this.#byName.get(name)
    if (entry === undefined || entry.holds === 0) return
    entry.holds--
    if (entry.holds === 0) this.#idle.add(entry)
  }

  #use(entry: Entry): void {
    if (entry.holds > 0) return
    this.#idle.remove(entry)
    this.#idle.add(entry)
  }

  #give(name: string): string | undefined {
    const now = this.#now()
    const isFull = this.#byName.size >= this.#maxNames
    const dropped = isFull ? this.#idle.oldest : undefined
    if (isFull && dropped === undefined) return undefined
    const word = this.#takeWord(now, isFull && this.#resting.isFull)
    if (word === undefined) return undefined
    if (dropped !== undefined) this.#drop(dropped, now)
    const entry: Entry = { name, word, holds: 0 }
    this.#byName.set(name, entry)
    this.#byWord.set(word, entry)
    this.#idle.add(entry)
    return dotted(word)
  }

  /** An address that is free. Where room is needed for another one to rest, it is one that has rested. */
  #takeWord(now: number, needsRoom: boolean): number | undefined {
    if (needsRoom || this.#fresh >= this.#last) return this.#resting.take(now)
    return this.#fresh++
  }

  #drop(entry: Entry, now: number): void {
    this.#idle.remove(entry)
    this.#byName.delete(entry.name)
    this.#byWord.delete(entry.word)
    this.#resting.add(entry.word, now)
  }
}

function wordOf(ip: IpAddress): number {
  return ip.words[0] ?? 0
}

function dotted(word: number): string {
  return formatIp({ family: 4, words: [word] })
}

/** An address as a socket tells it: on a socket of both families an IPv4 address is an IPv4-mapped one. */
function readAddress(text: string): IpAddress | undefined {
  const ip = parseIpv4(text) ?? parseIpv6(text)
  return ip && unmap(ip)
}
