import { literalEnd, type NamePattern, patternLabels } from './pattern.ts'
import { type Bucket, type PlacedRule, toBucket } from './rule-bucket.ts'

// Every pattern over names is a hash key:
//   exact names        the name
//   `*.x` and `**.x`   the literal text behind the stars, `x`
//   other globs        the labels with what their stars cover taken out; one try for each *shape* of glob that the policy
//                      has behind this literal end (a shape says, label by label, what a star leaves literal)
// So a look-up costs as many hashes as the name has labels, and one for each shape that may match, however many rules
// there are.

/** What stays literal of one label: all of it, nothing, or so many characters at each end. */
type LabelShape = 'literal' | 'star' | { readonly head: number; readonly tail: number }

interface Shape {
  readonly anyDepth: boolean
  readonly labels: readonly LabelShape[]
  readonly buckets: Map<string, Bucket>
  /** The list of this shape alone, which most literal ends share. */
  readonly alone: readonly Shape[]
}

/** What the patterns with stars are that end in one literal text. */
interface Ending {
  oneLabel: Bucket | undefined
  anyDepth: Bucket | undefined
  shapes: readonly Shape[]
}

const NO_SHAPES: readonly Shape[] = []

/** The name rules of a policy, by hash. */
export class NameIndex {
  readonly #exact = new Map<string, Bucket>()
  readonly #endings = new Map<string, Ending>()

  /** Builds the index from rules in policy order; rules over addresses are passed over. */
  constructor(rules: readonly PlacedRule[]) {
    const shapes = new ShapeTable()
    const lists = new Map<string, PlacedRule[]>()
    const homes: ((bucket: Bucket) => void)[] = []
    for (const rule of rules) {
      const { pattern } = rule
      if (pattern.kind === 'ip') continue
      const list = lists.get(pattern.text)
      if (list) {
        list.push(rule)
        continue
      }
      lists.set(pattern.text, [rule])
      homes.push(this.#homeOf(pattern, shapes))
    }
    let i = 0
    for (const list of lists.values()) homes[i++]?.(toBucket(list))
  }

  /** The buckets of every pattern that matches the name, whatever their ports. */
  buckets(name: string): Bucket[] {
    const found: Bucket[] = []
    const exact = this.#exact.get(name)
    if (exact !== undefined) found.push(exact)
    let labels: readonly string[] | undefined
    let depth = 0
    for (let start = 0; start !== -1; depth++) {
      const dot = name.indexOf('.', start)
      start = dot === -1 ? -1 : dot + 1
      const ending = this.#endings.get(start === -1 ? '' : name.slice(start))
      if (ending === undefined) continue
      const { oneLabel, anyDepth, shapes } = ending
      if (oneLabel !== undefined && depth === 0) found.push(oneLabel)
      if (anyDepth !== undefined) found.push(anyDepth)
      for (const shape of shapes) {
        labels ??= name.split('.')
        const key = shapeKey(shape, labels)
        const bucket = key === undefined ? undefined : shape.buckets.get(key)
        if (bucket !== undefined) found.push(bucket)
      }
    }
    return found
  }

  /** Where the rules of a pattern belong. */
  #homeOf(pattern: NamePattern, shapes: ShapeTable): (bucket: Bucket) => void {
    const { anyDepth, text } = pattern
    const end = literalEnd(pattern)
    if (text === end) return (bucket) => void this.#exact.set(text, bucket)
    const ending = this.#endingOf(end)
    const stars = end === '' ? text : text.slice(0, -end.length - 1)
    if (stars === '**') return (bucket) => void (ending.anyDepth = bucket)
    if (stars === '*') return (bucket) => void (ending.oneLabel = bucket)
    const labels = patternLabels(pattern)
    const shape = shapes.shapeFor(anyDepth, labels.map(shapeOf))
    shapes.addTo(ending, shape)
    return (bucket) => void shape.buckets.set(labels.join('.'), bucket)
  }

  #endingOf(text: string): Ending {
    let ending = this.#endings.get(text)
    if (ending === undefined) {
      ending = { oneLabel: undefined, anyDepth: undefined, shapes: NO_SHAPES }
      this.#endings.set(text, ending)
    }
    return ending
  }
}

/** The shapes of a policy while its index is built. */
class ShapeTable {
  readonly #shapes = new Map<string, Shape>()
  /** The endings that have more than one. */
  readonly #lists = new Map<Ending, { readonly known: Set<Shape>; readonly list: Shape[] }>()

  shapeFor(anyDepth: boolean, labels: readonly LabelShape[]): Shape {
    const id = JSON.stringify([anyDepth, labels])
    let shape = this.#shapes.get(id)
    if (shape === undefined) {
      const alone: Shape[] = []
      shape = { anyDepth, labels, buckets: new Map(), alone }
      alone.push(shape)
      this.#shapes.set(id, shape)
    }
    return shape
  }

  addTo(ending: Ending, shape: Shape): void {
    if (ending.shapes.length === 0) ending.shapes = shape.alone
    if (ending.shapes === shape.alone) return
    let more = this.#lists.get(ending)
    if (more === undefined) {
      more = { known: new Set(ending.shapes), list: [...ending.shapes] }
      this.#lists.set(ending, more)
      ending.shapes = more.list
    }
    if (more.known.has(shape)) return
    more.known.add(shape)
    more.list.push(shape)
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
