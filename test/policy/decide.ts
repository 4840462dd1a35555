import { readFileSync } from 'node:fs'
import tap from 'tap'
import { decide } from '../../src/policy/decide.ts'
import type { Mode } from '../../src/policy/policy.ts'
import { parseTarget } from '../../src/policy/target.ts'
import { AFTER, NOW, policyOf, type Written } from '../support/policy-of.ts'

/** `until` dates of the table are half a year before and behind `NOW`. */
type Row = [
  mode: Mode,
  name: string,
  policy: Written[],
  target: string,
  verdict: 'allow' | 'deny',
  reason: string,
  rule?: string,
]

const TABLE = JSON.parse(
  readFileSync(new URL('../fixtures/decisions.json', import.meta.url), 'utf8'),
) as Row[]

for (const [mode, name, policy, target, verdict, reason, rule] of TABLE) {
  void tap.test(`${mode}: ${name}`, async (t) => {
    const decision = decide(policyOf(policy, mode), parseTarget(target), NOW)
    t.equal(decision.verdict, verdict)
    t.equal(decision.reason, reason)
    t.equal(decision.rule?.text, rule)
  })
}

void tap.test('the same question has the same answer', async (t) => {
  const policy = policyOf(['a.test', { host: 'b.test', until: AFTER }])
  for (const text of ['a.test', 'b.test', 'c.test']) {
    t.strictSame(decide(policy, parseTarget(text), NOW), decide(policy, parseTarget(text), NOW))
  }
  t.equal(decide(policy, parseTarget('b.test'), Date.parse(AFTER)).reason, 'expired')
  t.equal(
    decide(policy, parseTarget('b.test'), NaN).verdict,
    'deny',
    'no clock, no rule with a date',
  )
})
