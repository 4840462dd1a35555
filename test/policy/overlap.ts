import tap from 'tap'
import { ipHost, type Host } from '../../src/policy/host.ts'
import { patternCovers, patternsOverlap } from '../../src/policy/overlap.ts'
import { matchesPattern, parsePattern, type Pattern } from '../../src/policy/pattern.ts'

function pattern(text: string): Pattern {
  const parsed = parsePattern(text)
  if (parsed.kind === 'bad') throw new Error(`${text}: ${parsed.why}`)
  return parsed
}

/** Every text over two letters of up to so many. */
function words(most: number): string[] {
  if (most === 0) return []
  const shorter = words(most - 1)
  return [...new Set([...shorter, ...['', ...shorter].flatMap((text) => [`${text}a`, `${text}b`])])]
}

const LABELS = words(4)
const SHORT = words(2)
const HOSTS: Host[] = [
  ...LABELS,
  ...LABELS.flatMap((a) => SHORT.map((b) => `${a}.${b}`)),
  ...SHORT.flatMap((a) => LABELS.map((b) => `${a}.${b}`)),
  ...SHORT.flatMap((a) => SHORT.flatMap((b) => SHORT.map((c) => `${a}.${b}.${c}`))),
].map((name) => ({ kind: 'name', name }))

const PARTS = ['a', 'ab', '*', 'a*', '*a', 'a*b', 'ba*', '*ab']
const PATTERNS = [
  '**',
  ...PARTS,
  ...['a', '*', 'a*', '*b'].flatMap((one) => ['a', '*', '*a'].map((two) => `${one}.${two}`)),
  ...['a', '*', 'a*', '*.a', 'b.*'].map((rest) => `**.${rest}`),
].map(pattern)

void tap.test('cover and overlap of names agree with trying every short name', async (t) => {
  const matches = PATTERNS.map((one) => HOSTS.map((host) => matchesPattern(one, host)))
  let covered = 0
  let apart = 0
  for (const [i, outer] of PATTERNS.entries()) {
    for (const [j, inner] of PATTERNS.entries()) {
      const outerHits = matches[i] ?? []
      const innerHits = matches[j] ?? []
      const covers = innerHits.every((hit, k) => !hit || outerHits[k])
      const overlap = innerHits.some((hit, k) => hit && outerHits[k])
      if (covers) covered++
      if (!overlap) apart++
      if (patternCovers(outer, inner) !== covers)
        t.fail(`${outer.text} covers ${inner.text}: ${covers}`)
      if (patternsOverlap(outer, inner) !== overlap)
        t.fail(`${outer.text} meets ${inner.text}: ${overlap}`)
    }
  }
  t.ok(covered > 100 && apart > 100, `${covered} pairs cover, ${apart} are apart`)
})

const RANGES = [
  '0.0.0.0/0',
  '0.0.0.0/30',
  '0.0.0.4/30',
  '0.0.0.0/29',
  '0.0.0.3',
  '::/0',
  '::/126',
  '::3',
].map(pattern)
const ADDRESSES = Array.from({ length: 9 }, (_, i) => i).flatMap((last): Host[] => [
  ipHost({ family: 4, words: [last] }),
  ipHost({ family: 6, words: [0, 0, 0, last] }),
])

void tap.test('cover and overlap of ranges agree with trying every address', async (t) => {
  for (const outer of RANGES) {
    for (const inner of RANGES) {
      const both = ADDRESSES.filter((host) => matchesPattern(inner, host))
      t.equal(
        patternsOverlap(outer, inner),
        both.some((host) => matchesPattern(outer, host)),
        `${outer.text} meets ${inner.text}`,
      )
      if (inner.text.endsWith('/0')) continue
      t.equal(
        patternCovers(outer, inner),
        both.every((host) => matchesPattern(outer, host)),
        `${outer.text} covers ${inner.text}`,
      )
    }
  }
})

void tap.test('names and addresses never cover or meet each other', async (t) => {
  for (const [a, b] of [
    ['**', '0.0.0.0/0'],
    ['0.0.0.0/0', '**'],
    ['::/0', '0.0.0.0/0'],
  ] as const) {
    t.notOk(patternCovers(pattern(a), pattern(b)), `${a} ${b}`)
    t.notOk(patternsOverlap(pattern(a), pattern(b)), `${a} ${b}`)
  }
})
