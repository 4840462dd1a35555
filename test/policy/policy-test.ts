import tap from 'tap'
import { parsePolicy } from '../../src/policy/parse.ts'
import { runPolicyTests } from '../../src/policy/policy-test.ts'
import { NOW, policyOf } from '../support/policy-of.ts'

void tap.test('assertions that do not hold are answered with the decision', async (t) => {
  const { tests } = parsePolicy(
    'tests:\n  allow: [a.test, b.test]\n  deny: [a.test, c.test, "no target"]\n',
    'policy.yaml',
  )
  const failed = runPolicyTests(policyOf(['a.test']), tests, NOW)
  t.strictSame(
    failed.map(({ test, decision }) => [test.expect, test.text, test.origin.line, decision.reason]),
    [
      ['allow', 'b.test', 2, 'no-rule'],
      ['deny', 'a.test', 3, 'rule'],
    ],
  )
})
