import tap from 'tap'
import { LiteralIndex, OverlapIndex } from '../../src/policy/literal-index.ts'
import { patternCovers, patternsOverlap } from '../../src/policy/overlap.ts'
import { ruleOf } from '../support/policy-of.ts'

const NAMES = [
  'a.b.test',
  '*.b.test',
  '**.b.test',
  '*.*.test',
  'a*.b.test',
  '**',
  '*',
  'b.test',
  'x.a*.b.test',
  '**.a.b.test',
]
const RANGES = [
  '10.0.0.0/8',
  '10.1.0.0/16',
  '10.1.2.3',
  '0.0.0.0/0',
  '11.0.0.0/8',
  '2001:db8::/32',
  '2001:db8::1',
  '::/0',
]
const RULES = [...NAMES, ...RANGES].map((host, i) => ruleOf(`!${host}`, i + 1))

void tap.test('whatever covers a pattern is among its candidates', async (t) => {
  const index = new LiteralIndex()
  for (const rule of RULES) index.add(rule)
  for (const inner of RULES) {
    const found = [...index.candidates(inner.pattern)]
    for (const outer of RULES) {
      if (!patternCovers(outer.pattern, inner.pattern)) continue
      t.ok(found.includes(outer), `${outer.text} for ${inner.text}`)
    }
  }
})

void tap.test('whatever overlaps a pattern is among its candidates', async (t) => {
  const index = new OverlapIndex()
  for (const rule of RULES) index.add(rule)
  for (const one of RULES) {
    const found = new Set(index.candidates(one.pattern))
    for (const other of RULES) {
      if (patternsOverlap(one.pattern, other.pattern))
        t.ok(found.has(other), `${other.text} for ${one.text}`)
    }
  }
})

void tap.test('the most specific come first, of equals the last added', async (t) => {
  const index = new LiteralIndex()
  const rules = ['!**.test', '!a.test', '!a.test:80', '!**'].map((host, i) => ruleOf(host, i + 1))
  for (const rule of rules) index.add(rule)
  const found = [...index.candidates(ruleOf('!a.test').pattern)].map(({ text }) => text)
  t.strictSame(found, ['!a.test:80', '!a.test', '!**.test', '!**'])
  t.strictSame(
    [...index.candidates(ruleOf('!b.example').pattern)].map(({ text }) => text),
    ['!**'],
  )
})
