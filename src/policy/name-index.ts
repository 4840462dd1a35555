import { literalEnd, patternLabels } from './pattern.ts'
import { type Bucket, type PlacedRule, toBucket } from './rule-bucket.ts'

// Every pattern over names is a hash key:
//   exact names, `*.x` and `**.x`  the literal text behind the stars
//   other globs                    the labels with what their stars cover taken out; one try for each *shape* of glob
//                                  in the policy (a shape says, label by label, what a star leaves literal)
// So a look-up costs as many hashes as the name has labels and the policy has shapes, however many rules there are.

/** What stays literal of one label: all of it, nothing, or so many characters at each end. */
type LabelShape = 'literal' | 'star' | { readonly head: number; readonly tail: number }

interface Shape {
  readonly anyDepth: boolean
  readonly labels: readonly LabelShape[]
  readonly buckets: BucketMap
}

type BucketMap = Map<string, Bucket>

/** The name rules of a policy, by hash. */
export class NameIndex {
  readonly #exact: BucketMap = new Map()
  readonly #oneLabel: BucketMap = new Map()
  readonly #anyDepth: BucketMap = new Map()
  readonly #shapes = new Map<string, Shape>()

  /** Builds the index from rules in policy order; rules over addresses are passed over. */
  constructor(rules: readonly PlacedRule[]) {
    const lists = new Map<BucketMap, Map<string, PlacedRule[]>>()
    for (const rule of rules) {
      if (rule.pattern.kind === 'ip') continue
      const { map, key } = this.#keyOf(rule)
      let keys = lists.get(map)
      if (keys === undefined) lists.set(map, (keys = new Map()))
      const list = keys.get(key)
      if (list) list.push(rule)
      else keys.set(key, [rule])
    }
    for (const [map, keys] of lists) {
      for (const [key, list] of keys) map.set(key, toBucket(list))
    }
  }

  /** The buckets of every pattern that matches the name, whatever their ports. */
  buckets(name: string): Bucket[] {
    const found: Bucket[] = []
    const take = (bucket: Bucket | undefined) => {
      if (bucket) found.push(bucket)
    }
    take(this.#exact.get(name))
    let dot = name.indexOf('.')
    take(this.#oneLabel.get(dot === -1 ? '' : name.slice(dot + 1)))
    for (; dot !== -1; dot = name.indexOf('.', dot + 1))
      take(this.#anyDepth.get(name.slice(dot + 1)))
    take(this.#anyDepth.get(''))
    if (this.#shapes.size > 0) {
      const labels = name.split('.')
      for (const shape of this.#shapes.values()) {
        const key = shapeKey(shape, labels)
        if (key !== undefined) take(shape.buckets.get(key))
      }
    }
    return found
  }

  #keyOf(rule: PlacedRule): { map: BucketMap; key: string } {
    const { pattern } = rule
    if (pattern.kind === 'ip') throw new TypeError('an address rule has no name')
    const { anyDepth, text } = pattern
    const end = literalEnd(pattern)
    if (text === end) return { map: this.#exact, key: text }
    if (text === '**' || text === `**.${end}`) return { map: this.#anyDepth, key: end }
    if (text === '*' || text === `*.${end}`) return { map: this.#oneLabel, key: end }
    const labels = patternLabels(pattern)
    const shapes = labels.map(shapeOf)
    const id = JSON.stringify([anyDepth, shapes])
    let shape = this.#shapes.get(id)
    if (shape === undefined) {
      shape = { anyDepth, labels: shapes, buckets: new Map() }
      this.#shapes.set(id, shape)
    }
    return { map: shape.buckets, key: labels.join('.') }
  }
}

function shapeOf(label: string): LabelShape {
  const star = label.indexOf('*')
  if (star === -1) return 'literal'
  return label.length === 1 ? 'star' : { head: star, tail: label.length - star - 1 }
}

/** The key that a pattern of this shape must have to match these labels; undefined if none can. */
function shapeKey(shape: Shape, labels: readonly string[]): string | undefined {
  const count = shape.labels.length
  const extra = labels.length - count
  if (shape.anyDepth ? extra < 1 : extra !== 0) return undefined
  let key = ''
  for (let i = 0; i < count; i++) {
    const want = shape.labels[i]
    const label = labels[extra + i] ?? ''
    if (i > 0) key += '.'
    if (want === 'literal') key += label
    else if (want === 'star' || want === undefined) key += '*'
    else if (label.length < want.head + want.tail) return undefined
    else key += `${label.slice(0, want.head)}*${label.slice(label.length - want.tail)}`
  }
  return key
}
