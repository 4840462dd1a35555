import tap from 'tap'
import { NameIndex } from '../../src/policy/name-index.ts'
import { parseHost } from '../../src/policy/host.ts'
import { matchesPattern, parsePattern } from '../../src/policy/pattern.ts'
import { seeded, seedOf, type Random } from '../support/random.ts'
import { ruleOf } from '../support/policy-of.ts'

function place(patterns: readonly string[]) {
  return patterns.map((host, i) =>
    Object.assign({}, ruleOf({ host: `!${host}` }, i + 1), { place: i }),
  )
}

function lookUp(patterns: readonly string[], name: string): string[] {
  return new NameIndex(place(patterns))
    .buckets(name)
    .flatMap((bucket) => bucket.map(({ text }) => text.slice(1)))
    .toSorted()
}

const ALL = [
  'a.test',
  '*.test',
  '**.test',
  '*.*.test',
  '**',
  '*',
  'a*.test',
  '*a.test',
  'a*b.test',
  '**.a*.test',
]

void tap.test('each form of pattern is found by the names it matches', async (t) => {
  const table: [name: string, patterns: string[]][] = [
    ['a.test', ['**', '**.test', '*.test', '*a.test', 'a*.test', 'a.test']],
    ['ab.test', ['**', '**.test', '*.test', 'a*.test', 'a*b.test']],
    ['b.a.test', ['**', '**.a*.test', '**.test', '*.*.test']],
    ['c.b.ax.test', ['**', '**.a*.test', '**.test']],
    ['test', ['*', '**']],
    ['constructor', ['*', '**']],
    ['__proto__.test', ['**', '**.test', '*.test']],
    ['other.example', ['**']],
  ]
  for (const [name, patterns] of table) t.strictSame(lookUp(ALL, name), patterns, name)
})

void tap.test('a star that is part of a label may stand for nothing', async (t) => {
  t.strictSame(lookUp(['a*b.x.test'], 'ab.x.test'), ['a*b.x.test'])
  t.strictSame(lookUp(['a*b.x.test'], 'a.x.test'), [], 'head and tail do not share a letter')
  t.strictSame(lookUp(['ab*ba.x.test'], 'aba.x.test'), [])
})

void tap.test('rules over addresses are passed over', async (t) => {
  t.strictSame(lookUp(['10.0.0.0/8', 'a.test'], 'a.test'), ['a.test'])
})

function randomLabel(random: Random): string {
  return Array.from({ length: 1 + random.below(3) }, () => random.pick(['a', 'b'])).join('')
}

function randomPattern(random: Random): string {
  const labels = Array.from({ length: 1 + random.below(3) }, () => {
    const label = randomLabel(random)
    if (random.chance(25)) return '*'
    if (random.chance(60)) return label
    const at = random.below(label.length + 1)
    return `${label.slice(0, at)}*${label.slice(at)}`
  })
  if (random.chance(25)) labels.unshift('**')
  return labels.join('.')
}

void tap.test('the index finds what plain matching finds, over random patterns', async (t) => {
  const seed = seedOf(31)
  const random = seeded(seed)
  let found = 0
  for (let round = 0; round < 300; round++) {
    const patterns = Array.from({ length: 1 + random.below(20) }, () => randomPattern(random))
    const parsed = [...new Set(patterns)].map((text) => ({ text, pattern: parsePattern(text) }))
    for (let i = 0; i < 20; i++) {
      const name = Array.from({ length: 1 + random.below(4) }, () => randomLabel(random)).join('.')
      const host = parseHost(name)
      if (host.kind === 'bad') throw new Error(name)
      const slow = parsed.flatMap(({ text, pattern }) =>
        pattern.kind !== 'bad' && matchesPattern(pattern, host) ? [text] : [],
      )
      found += slow.length
      const fast = lookUp([...new Set(patterns)], name)
      if (fast.join() !== slow.toSorted().join()) {
        t.fail(
          `${name} among ${patterns.join(' ')}: ${fast.join(' ')}, not ${slow.join(' ')} (SEED=${seed})`,
        )
      }
    }
  }
  t.ok(found > 3000, `${found} matches`)
})
