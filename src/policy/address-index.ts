import { cidrCovers, firstOf, type IpAddress, lastOf } from './address.ts'
import type { IpPattern } from './pattern.ts'
import { type Bucket, type PlacedRule, toBucket } from './rule-bucket.ts'

interface IpRule extends PlacedRule {
  readonly pattern: IpPattern
}

/** The address rules of a policy as sorted, disjoint ranges, each with the rules that cover it. */
export class AddressIndex {
  readonly #v4: RangeTable
  readonly #v6: RangeTable

  /** Builds the index from rules in policy order; rules over names are passed over. */
  constructor(rules: readonly PlacedRule[]) {
    const ofFamily = (family: 4 | 6) =>
      rules.filter(
        (rule): rule is IpRule =>
          rule.pattern.kind === 'ip' && rule.pattern.cidr.first.family === family,
      )
    this.#v4 = buildTable(ofFamily(4), 1)
    this.#v6 = buildTable(ofFamily(6), 4)
  }

  /** The rules whose range holds the address, whatever their ports, the last one first. */
  bucket(ip: IpAddress): Bucket {
    const table = ip.family === 4 ? this.#v4 : this.#v6
    const { starts, width, buckets } = table
    let low = 0
    let high = buckets.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (isAtOrBefore(starts, middle * width, ip.words)) low = middle + 1
      else high = middle
    }
    return buckets[low - 1] ?? []
  }
}

interface RangeTable {
  /** Words in an address. */
  readonly width: number
  /** The first address of each range, `width` words each; a range ends where the next begins. */
  readonly starts: Uint32Array
  readonly buckets: readonly Bucket[]
}

function isAtOrBefore(starts: Uint32Array, at: number, words: readonly number[]): boolean {
  for (let i = 0; i < words.length; i++) {
    const start = starts[at + i] ?? 0
    const word = words[i] ?? 0
    if (start !== word) return start < word
  }
  return true
}

function compareWords(a: readonly number[], b: readonly number[]): number {
  for (const [i, word] of a.entries()) {
    const other = b[i] ?? 0
    if (word !== other) return word - other
  }
  return 0
}

/** CIDR ranges nest or are apart, so one sweep with a stack of the ranges that are open gives the disjoint pieces. */
function buildTable(rules: readonly IpRule[], width: number): RangeTable {
  const sorted = rules.toSorted(
    (a, b) =>
      compareWords(a.pattern.cidr.first.words, b.pattern.cidr.first.words) ||
      a.pattern.cidr.bits - b.pattern.cidr.bits,
  )
  const starts: (readonly number[])[] = []
  const buckets: Bucket[] = []
  const open: IpRule[] = []
  const cut = (at: readonly number[]) => {
    const bucket = toBucket(open.toSorted((a, b) => a.place - b.place))
    const previous = starts.at(-1)
    if (previous && compareWords(previous, at) === 0) buckets[buckets.length - 1] = bucket
    else {
      starts.push(at)
      buckets.push(bucket)
    }
  }
  const closeBefore = (next: IpRule | undefined) => {
    for (let top = open.at(-1); top; top = open.at(-1)) {
      if (next && cidrCovers(top.pattern.cidr, next.pattern.cidr)) return
      const end = after(lastOf(top.pattern.cidr).words)
      const ended = top
      while (open.at(-1) && compareRange(open.at(-1), ended) === 0) open.pop()
      if (end) cut(end)
    }
  }
  for (const [i, rule] of sorted.entries()) {
    closeBefore(rule)
    open.push(rule)
    if (compareRange(sorted[i + 1], rule) !== 0)
      cut(firstOf(rule.pattern.cidr.first, rule.pattern.cidr.bits).words)
  }
  closeBefore(undefined)
  const flat = new Uint32Array(starts.length * width)
  for (const [i, words] of starts.entries()) flat.set(words, i * width)
  return { width, starts: flat, buckets }
}

function compareRange(a: IpRule | undefined, b: IpRule): number {
  if (a === undefined) return 1
  return (
    a.pattern.cidr.bits - b.pattern.cidr.bits ||
    compareWords(a.pattern.cidr.first.words, b.pattern.cidr.first.words)
  )
}

/** The address behind this one; undefined behind the last. */
function after(words: readonly number[]): readonly number[] | undefined {
  const next = [...words]
  for (let i = next.length - 1; i >= 0; i--) {
    const word = ((next[i] ?? 0) + 1) >>> 0
    next[i] = word
    if (word !== 0) return next
  }
  return undefined
}
