import { EgressError } from '../errors.ts'
import type { FailedTest } from '../policy/policy-test.ts'
import { runPolicyTests } from '../policy/policy-test.ts'
import { formatOrigin } from '../policy/rule.ts'
import { parseTarget } from '../policy/target.ts'
import { type Answer, answerTarget } from './answer.ts'
import { EXIT, type ExitCode } from './exit-codes.ts'
import { type Io, readAll } from './io.ts'
import type { PolicyOptions } from './policy-flags.ts'
import { policyFrom } from './policy-options.ts'
import { renderJson, renderTable } from './render.ts'
import { parseResolveOptions } from './resolve-option.ts'

interface TestOptions extends PolicyOptions {
  readonly resolve: readonly string[]
  readonly json?: boolean
}

/** `test`: decides targets, and runs the assertions that the policy file carries. */
export async function runTest(
  io: Io,
  arguments_: readonly string[],
  options: TestOptions,
): Promise<ExitCode> {
  const { policy, tests } = policyFrom(options)
  const given = parseResolveOptions(options.resolve)
  const nowMs = Date.now()
  const texts = await readTargets(io, arguments_)
  if (arguments_.length === 0 && tests.length === 0) {
    throw new EgressError(
      'USAGE',
      'name a target, - for standard input, or a policy file with tests',
    )
  }
  const answers = texts.map(
    (text) => answerTarget(policy, parseTarget(text), text, given, nowMs).answer,
  )
  const failed = runPolicyTests(policy, tests, nowMs)
  io.stdout(options.json ? renderJson(answers) : renderAnswers(answers))
  io.stderr(failed.map(renderFailedTest).join(''))
  if (!options.json && tests.length > 0) {
    io.stdout(`${tests.length - failed.length} of ${tests.length} policy tests pass\n`)
  }
  return failed.length > 0 || answers.some(({ verdict }) => verdict === 'deny') ? EXIT.no : EXIT.yes
}

async function readTargets(io: Io, arguments_: readonly string[]): Promise<string[]> {
  const targets: string[] = []
  for (const argument of arguments_) {
    if (argument !== '-') targets.push(argument)
    else {
      const lines = (await readAll(io.stdin)).split(/\r?\n/)
      for (const line of lines) if (line !== '') targets.push(line)
    }
  }
  return targets
}

function renderAnswers(answers: readonly Answer[]): string {
  return renderTable(
    answers.map(({ target, verdict, reason, rule, origin, lookup }) => [
      verdict,
      target,
      reason,
      rule === null ? '' : `${rule} (${origin ?? ''})`,
      lookup === 'needed' ? 'if its addresses are allowed' : '',
    ]),
  )
}

/** A failing assertion, in one line. */
export function renderFailedTest({ test, decision }: FailedTest): string {
  const by = decision.rule
    ? ` by ${decision.rule.text} (${formatOrigin(decision.rule.origin)})`
    : ''
  return `${formatOrigin(test.origin)}: expected ${test.expect} for ${test.text}, but it is ${decision.verdict}: ${decision.reason}${by}\n`
}
