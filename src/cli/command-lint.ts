import { EgressError } from '../errors.ts'
import { compilePolicy } from '../policy/compile.ts'
import { formatWarning, lintRules, type LintWarning } from '../policy/lint.ts'
import { parsePreset } from '../policy/parse.ts'
import type { PolicyTest } from '../policy/parse-parts.ts'
import type { Policy } from '../policy/policy.ts'
import { type FailedTest, runPolicyTests } from '../policy/policy-test.ts'
import { formatOrigin } from '../policy/rule.ts'
import type { Catalog } from '../presets/catalog.ts'
import { expandPreset } from '../presets/compose.ts'
import { readSource } from '../presets/read-source.ts'
import { renderFailedTest } from './command-test.ts'
import { EXIT, type ExitCode, exitCodeOf } from './exit-codes.ts'
import type { Io } from './io.ts'
import type { PolicyOptions } from './policy-flags.ts'
import { catalogOf, composeFrom, namesPolicy } from './policy-options.ts'
import { renderError, renderJson, renderJsonError } from './render.ts'

interface LintOptions extends PolicyOptions {
  readonly strict?: boolean
  readonly json?: boolean
}

interface Findings {
  readonly file: string
  readonly error: EgressError | undefined
  readonly warnings: readonly LintWarning[]
  readonly failed: readonly FailedTest[]
}

/** `lint`: what is wrong with policy and preset files, all of it at once. */
export function runLint(io: Io, files: readonly string[], options: LintOptions): ExitCode {
  const catalog = catalogOf(options)
  const all = [...(options.policy === undefined ? [] : [options.policy]), ...files]
  if (all.length === 0 && !namesPolicy(options))
    throw new EgressError('USAGE', 'name a file to lint')
  const subjects = all.length > 0 ? all : [undefined]
  const findings = subjects.map((file) => lintFile(file, options, catalog))
  const error = findings.find((one) => one.error)?.error
  if (options.json && error) io.stdout(renderJsonError(error, { files: findings.map(toJson) }))
  else if (options.json) io.stdout(renderJson(findings.map(toJson)))
  else for (const one of findings) print(io, one)
  return worstOf(findings, options.strict === true)
}

function lintFile(file: string | undefined, options: LintOptions, catalog: Catalog): Findings {
  const name = file ?? 'the command line'
  try {
    const nowMs = Date.now()
    const { policy, tests, own } = loadSubject(file, options, catalog)
    return {
      file: name,
      error: undefined,
      warnings: lintRules(policy.rules, nowMs).filter(({ rule }) => own.has(rule.origin.source)),
      failed: runPolicyTests(policy, tests, nowMs),
    }
  } catch (error) {
    if (!(error instanceof EgressError)) throw error
    return { file: name, error, warnings: [], failed: [] }
  }
}

interface Subject {
  readonly policy: Policy
  readonly tests: readonly PolicyTest[]
  /** The sources whose rules are looked at: not those of presets that the subject only uses. */
  readonly own: ReadonlySet<string>
}

function loadSubject(file: string | undefined, options: LintOptions, catalog: Catalog): Subject {
  if (file !== undefined && isPresetFile(file)) {
    const preset = parsePreset(readSource(file), file)
    const parents = preset.extends.flatMap(({ name, at }) => expandPreset(name, catalog, at))
    const rules = [...new Set(parents)].flatMap((one) => one.rules)
    return {
      policy: compilePolicy({ mode: 'allowlist', rules: [...rules, ...preset.rules] }),
      tests: preset.tests,
      own: new Set([`preset:${preset.name}`]),
    }
  }
  const own = [file ?? '', '--rule', ...options.preset.map((name) => `preset:${name}`)]
  return { ...composeFrom(options, catalog, file), own: new Set(own) }
}

/** A preset says what it is called; a policy does not. */
function isPresetFile(file: string): boolean {
  return /^[ \t{]*"?(?:name|description)"?[ \t]*:/m.test(readSource(file).slice(0, 4096))
}

function print(io: Io, { file, error, warnings, failed }: Findings): void {
  if (error) {
    io.stderr(renderError(error))
    return
  }
  for (const warning of warnings) io.stdout(`${formatWarning(warning)}\n`)
  for (const one of failed) io.stdout(renderFailedTest(one))
  if (warnings.length === 0 && failed.length === 0) io.stdout(`${file}: ok\n`)
}

function toJson({ file, error, warnings, failed }: Findings) {
  const problems = error?.problems.length ? error.problems : undefined
  return {
    file,
    problems:
      problems ??
      (error ? [{ code: error.code, message: error.message, at: error.at ?? null }] : []),
    warnings: warnings.map(({ kind, rule, message }) => ({
      kind,
      message,
      rule: rule.text,
      origin: formatOrigin(rule.origin),
    })),
    failed_tests: failed.map(({ test, decision }) => ({
      target: test.text,
      expected: test.expect,
      verdict: decision.verdict,
      reason: decision.reason,
      origin: formatOrigin(test.origin),
    })),
  }
}

function worstOf(findings: readonly Findings[], strict: boolean): ExitCode {
  const error = findings.find((one) => one.error)?.error
  if (error) return exitCodeOf(error)
  const isBad = ({ failed, warnings }: Findings) =>
    failed.length > 0 || (strict && warnings.length > 0)
  return findings.some(isBad) ? EXIT.no : EXIT.yes
}
