import { decide, type Decision } from './decide.ts'
import type { PolicyTest } from './parse-parts.ts'
import type { Policy } from './policy.ts'

/** An assertion of a file that does not hold. */
export interface FailedTest {
  readonly test: PolicyTest
  readonly decision: Decision
}

/** Runs the assertions that a file carries; answers those that fail. */
export function runPolicyTests(
  policy: Policy,
  tests: readonly PolicyTest[],
  nowMs: number,
): FailedTest[] {
  return tests
    .map((test) => ({ test, decision: decide(policy, test.target, nowMs) }))
    .filter(({ test, decision }) => decision.verdict !== test.expect)
}
