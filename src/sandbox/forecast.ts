import type { SandboxHost } from './host.ts'
import { type PlanOptions, readPlan, type RunSource } from './run-plan.ts'

/** A run that does not run yet. */
export type ForecastInput = Omit<PlanOptions, 'control' | 'flags' | 'workspace'> &
  (
    | (Pick<PlanOptions, 'flags' | 'workspace'> & { readonly source: RunSource })
    /** The id of a run that would be resumed: what it recorded goes before everything else. */
    | { readonly run: string }
  )

/**
 * Whether a run will be in a sandbox: the answer of the resolver that the run itself asks, with the repository that it will
 * receive. An engine that does not answer changes nothing: such a run fails, and never goes on without. Nothing is started,
 * made or recorded.
 *
 * Ask before a secret is handed over as a file, and before a backend is chosen that cannot be in a sandbox.
 *
 * @throws {EgressError} what is wrong with the workflow file or a variable; RUN_UNKNOWN
 */
export async function willBeSandboxed(host: SandboxHost, input: ForecastInput): Promise<boolean> {
  return (await forecast(host, input)).decision.kind === 'sandboxed'
}

async function forecast(host: SandboxHost, input: ForecastInput) {
  if (!('run' in input)) return readPlan(host, input.source, input)
  const { readRun } = await import('./run-archive.ts')
  const { source, flags, workspace } = readRun(host, input.run)
  return readPlan(host, source, { ...input, flags, workspace })
}
