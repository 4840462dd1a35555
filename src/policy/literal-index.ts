import { familyBits, firstOf, formatCidr } from './address.ts'
import { isWildcard, literalEnd, type Pattern, patternLabels } from './pattern.ts'
import type { Rule } from './rule.ts'

/** Rules filed by the literal end of their pattern, to find those that can cover another pattern. */
export class LiteralIndex {
  readonly #byKey = new Map<string, Rule[]>()

  add(rule: Rule): void {
    const key = literalKey(rule.pattern)
    const list = this.#byKey.get(key)
    if (list) list.push(rule)
    else this.#byKey.set(key, [rule])
  }

  /** The rules whose pattern may cover this one, the most specific first, the last added first. */
  *candidates(pattern: Pattern): Generator<Rule> {
    for (const key of keysAbove(pattern)) {
      const list = this.#byKey.get(key)
      for (let i = (list?.length ?? 0) - 1; i >= 0; i--) {
        const rule = list?.[i]
        if (rule) yield rule
      }
    }
  }
}

/** Rules to find those that can overlap another pattern: above it as in {@link LiteralIndex}, or below it. */
export class OverlapIndex {
  readonly #above = new LiteralIndex()
  readonly #below = new Map<string, Rule[]>()
  readonly #addresses: Rule[] = []

  add(rule: Rule): void {
    this.#above.add(rule)
    const { pattern } = rule
    if (pattern.kind === 'ip') this.#addresses.push(rule)
    else {
      const end = literalEnd(pattern)
      for (let dot = end.indexOf('.'); dot !== -1; dot = end.indexOf('.', dot + 1)) {
        this.#addBelow(end.slice(dot + 1), rule)
      }
      if (end !== '') this.#addBelow('', rule)
    }
  }

  /** The rules whose pattern may overlap this one, some of them twice. */
  *candidates(pattern: Pattern): Generator<Rule> {
    yield* this.#above.candidates(pattern)
    if (pattern.kind === 'name') {
      if (isWildcard(pattern)) yield* this.#below.get(literalEnd(pattern)) ?? []
    } else if (pattern.cidr.bits < familyBits(pattern.cidr.first.family)) yield* this.#addresses
  }

  #addBelow(end: string, rule: Rule): void {
    const list = this.#below.get(end)
    if (list) list.push(rule)
    else this.#below.set(end, [rule])
  }
}

function literalKey(pattern: Pattern): string {
  return pattern.kind === 'ip' ? pattern.text : literalEnd(pattern)
}

function* keysAbove(pattern: Pattern): Generator<string> {
  if (pattern.kind === 'name') {
    const labels = patternLabels(pattern)
    for (let from = 0; from <= labels.length; from++) yield labels.slice(from).join('.')
    return
  }
  const { first } = pattern.cidr
  for (let { bits } = pattern.cidr; bits >= 0; bits--) {
    yield formatCidr({ first: firstOf(first, bits), bits })
  }
}
