import tap from 'tap'
import { lastInBucket, lastMatch, type PlacedRule, toBucket } from '../../src/policy/rule-bucket.ts'
import { AFTER, BEFORE, NOW, ruleOf, type Written } from '../support/policy-of.ts'

function place(rules: readonly Written[]): PlacedRule[] {
  return rules.map((rule, i) => Object.assign({}, ruleOf(rule, i + 1), { place: i }))
}

const texts = (rules: readonly PlacedRule[]) => rules.map(({ place: at }) => at)

void tap.test('a rule that a later one always overrules is left out', async (t) => {
  t.strictSame(texts(toBucket(place(['a.test']))), [0])
  t.strictSame(texts(toBucket(place(['a.test:80', '!a.test:80', 'a.test:443']))), [2, 1])
  t.strictSame(
    texts(toBucket(place(['a.test', { host: 'a.test', ports: [443, 80] }]))),
    [1],
    'equal sets of ports',
  )
})

void tap.test('a rule that may run out leaves the one before it in', async (t) => {
  const rules = place(['a.test', { host: '!a.test', ports: [80, 443], until: AFTER }])
  const bucket = toBucket(rules)
  t.strictSame(texts(bucket), [1, 0])
  t.equal(lastInBucket(bucket, 443, NOW)?.place, 1)
  t.equal(lastInBucket(bucket, 443, Date.parse(AFTER) - 1)?.place, 1)
  t.equal(lastInBucket(bucket, 443, Date.parse(AFTER))?.place, 0)
  t.equal(lastInBucket(bucket, 22, NOW), undefined)
})

void tap.test('what matters to the address floor stays in', async (t) => {
  t.strictSame(texts(toBucket(place(['10.0.0.0/8:80', '10.0.0.0/16:80']))), [1, 0], 'another range')
  const named = place([{ host: '127.0.0.1:80' }, { host: '!127.0.0.1:80' }])
  t.strictSame(texts(toBucket(named)), [1])
  const unnamed = ruleOf('127.0.0.1', 2, [{ low: 80, high: 80 }])
  const bucket = toBucket([...place(['127.0.0.1:80']), Object.assign({}, unnamed, { place: 1 })])
  t.strictSame(texts(bucket), [1, 0], 'a rule that names its port and one that does not')
})

void tap.test('of several buckets the rule with the highest place wins', async (t) => {
  const [a, b, c] = place(['a.test', { host: 'b.test', until: BEFORE }, 'c.test:22'])
  if (!a || !b || !c) throw new Error('three rules')
  t.equal(lastMatch([[a], [b], [c]], 443, NOW), a)
  t.equal(lastMatch([[c], [a]], 22, NOW), c)
  t.equal(lastMatch([[{ ...c, place: 5, ports: a.ports }], [a]], 443, NOW)?.place, 5)
  t.equal(lastMatch([], 443, NOW), undefined)
})
