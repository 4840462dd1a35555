import { escapeControls } from '../errors.ts'
import { explain } from '../policy/explain.ts'
import { formatOrigin } from '../policy/rule.ts'
import { isBadTarget, parseTarget } from '../policy/target.ts'
import { answerTarget } from './answer.ts'
import { EXIT, type ExitCode } from './exit-codes.ts'
import type { Io } from './io.ts'
import type { PolicyOptions } from './policy-flags.ts'
import { policyFrom } from './policy-options.ts'
import { renderJson } from './render.ts'
import { parseResolveOptions } from './resolve-option.ts'

interface ExplainOptions extends PolicyOptions {
  readonly resolve: readonly string[]
  readonly json?: boolean
}

const OUTCOMES = {
  won: 'won',
  overruled: 'overruled by a later rule',
  port: 'not for this port',
  expired: 'expired',
  floor: 'does not open what is closed in every mode',
} as const

/** `explain`: the verdict with every rule that matched, which one won, and the rule that would allow the target. */
export function runExplain(io: Io, text: string, options: ExplainOptions): ExitCode {
  const { policy } = policyFrom(options)
  const nowMs = Date.now()
  const target = parseTarget(text)
  const { answer, suggestion: byGiven } = answerTarget(
    policy,
    target,
    text,
    parseResolveOptions(options.resolve),
    nowMs,
  )
  const { trace, suggestion: byTarget } = explain(policy, target, nowMs)
  const suggestion = answer.lookup === 'given' ? byGiven : byTarget
  if (options.json) {
    const matched = trace.map(({ rule, meaning, outcome }) => ({
      rule: rule.text,
      origin: formatOrigin(rule.origin),
      meaning,
      outcome,
      note: rule.note ?? null,
    }))
    io.stdout(renderJson({ ...answer, mode: policy.mode, matched, suggestion: suggestion ?? null }))
  } else {
    const lines = [
      `${answer.verdict}: ${escapeControls(text)} (${answer.reason}, mode ${policy.mode})`,
    ]
    if (isBadTarget(target)) lines.push(`  ${target.bad}`)
    for (const { rule, meaning, outcome } of trace) {
      const note = rule.note === undefined ? '' : `\n      ${rule.note}`
      lines.push(
        `  ${rule.text}  ${formatOrigin(rule.origin)}  ${OUTCOMES[outcome]}\n      ${meaning}${note}`,
      )
    }
    if (trace.length === 0 && !isBadTarget(target)) lines.push('  no rule matches the host')
    if (answer.lookup === 'needed')
      lines.push('  allowed only if its addresses are: ask again with --resolve')
    if (suggestion !== undefined) lines.push(`  a rule that would allow it: ${suggestion}`)
    io.stdout(`${lines.join('\n')}\n`)
  }
  return answer.verdict === 'allow' ? EXIT.yes : EXIT.no
}
