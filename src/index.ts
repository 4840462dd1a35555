export {
  EgressError,
  ERROR_MEANINGS,
  type ErrorCode,
  formatProblem,
  type Problem,
  type SourcePlace,
} from './errors.ts'
export {
  type EgressEvent,
  type EventData,
  type EventType,
  eventJsonSchema,
} from './events/event.ts'
export { type EventLog, openEventLog } from './events/event-log.ts'
export { compilePolicy, type PolicyParts } from './policy/compile.ts'
export {
  type AllowReason,
  decide,
  type Decision,
  type DenyReason,
  type Reason,
} from './policy/decide.ts'
export { explain, type Explanation, type RuleTrace, suggestRule } from './policy/explain.ts'
export { lintRules, type LintWarning } from './policy/lint.ts'
export { parsePolicy, parsePreset, type PolicySource, type PresetSource } from './policy/parse.ts'
export type { Mode, Policy, TlsPolicy } from './policy/policy.ts'
export type { PolicyTest } from './policy/parse-parts.ts'
export { type FailedTest, runPolicyTests } from './policy/policy-test.ts'
export { formatOrigin, type Origin, parseRule, type Rule } from './policy/rule.ts'
export { policyJsonSchema, presetJsonSchema } from './policy/schema.ts'
export {
  type BadTarget,
  formatTarget,
  isBadTarget,
  parseTarget,
  type Target,
  type Via,
} from './policy/target.ts'
export { type Catalog, createCatalog } from './presets/catalog.ts'
export {
  type ComposedPolicy,
  composePolicy,
  expandPreset,
  type PolicyRecipe,
} from './presets/compose.ts'
export { loadPolicy } from './presets/load-policy.ts'
export { createToken } from './proxy/authenticate.ts'
export {
  createEgressProxy,
  type EgressProxy,
  type EgressProxyOptions,
  type EgressProxyStats,
  type ListenAddress,
} from './proxy/egress-proxy.ts'
export { DEFAULT_LIMITS, type Limits } from './proxy/limits.ts'
export { type Resolver, type ResolverAnswer } from './proxy/resolver.ts'
export { type RelayChoice, type RelayKind } from './proxy/sockets.ts'
export { systemResolver } from './proxy/system-resolver.ts'
export { type Spawner, systemSpawner } from './door/spawn.ts'
export type { RepositorySandbox } from './sandbox/choose-container.ts'
export type { RunResult } from './sandbox/drive-run.ts'
export { type ForecastInput, willBeSandboxed } from './sandbox/forecast.ts'
export type { ProcessIdentity, SandboxHost } from './sandbox/host.ts'
export { readIdentity } from './sandbox/process-identity.ts'
export { resolveSpec, type SpecDecision, type SpecRequest } from './sandbox/resolve-spec.ts'
export { RunControl } from './sandbox/run-control.ts'
export type { RunRecord } from './sandbox/run-record.ts'
export type { RunFlags, RunOptions, RunSource } from './sandbox/run-plan.ts'
export { resumeRun, runWorkflow } from './sandbox/run-workflow.ts'
export type { HostState, SandboxMode } from './sandbox/spec.ts'
