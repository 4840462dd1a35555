import path from 'node:path'
import type { Policy } from '../policy/policy.ts'
import type { BuildInput } from './build-tag.ts'
import type { SandboxHost } from './host.ts'
import { readKnobs } from './knobs.ts'
import { readLimits } from './limits.ts'
import type { SandboxedSpec } from './resolve-spec.ts'
import type { RunOptions, RunPlan } from './run-plan.ts'
import type { SandboxRequest } from './sandbox.ts'
import { readSecrets } from './secrets.ts'
import type { BuildSpec } from './spec.ts'

/**
 * What a run asks of its sandbox. A run and its forecast ask here.
 *
 * @returns the request, and a line for each variable that cannot be used
 * @throws {EgressError} what is wrong with what the repository says, or with a secret
 */
export function sandboxRequest(
  host: SandboxHost,
  plan: RunPlan,
  { container, hostState }: SandboxedSpec,
  options: RunOptions,
  loadPolicy: () => Promise<Policy | undefined>,
): { readonly request: SandboxRequest; readonly warnings: readonly string[] } {
  const { workflow, engine } = plan
  if ('fault' in container) throw container.fault
  const { knobs, warnings } = readKnobs(host.env)
  const limits = readLimits(host.env, host.memoryBytes)
  const request: SandboxRequest = {
    ...options,
    workflow,
    block: workflow.sandbox,
    hostState,
    image: 'image' in container ? container.image : buildInput(container.build, plan.workflowDir),
    inspected: engine?.image,
    repository: container.from === 'repository' ? plan.repository?.devcontainer : undefined,
    workflowDir: plan.workflowDir,
    hasPolicy: plan.network.kind === 'policy',
    loadPolicy,
    door: options.flags.door,
    sidecarImage: sidecarImage(host, options),
    resolve: options.flags.resolve,
    secrets: readSecrets(workflow, host, options.workspace),
    knobs,
    memoryBytes: limits.memoryBytes,
    pidsLimit: limits.pids,
  }
  return { request, warnings: [...warnings, ...limits.warnings] }
}

/** A build with absolute paths: relative ones start at the folder of the workflow. */
function buildInput({ dockerfile, context, args, target }: BuildSpec, folder: string): BuildInput {
  const absolute = (one: string) => (path.isAbsolute(one) ? one : path.join(folder, one))
  return { dockerfile: absolute(dockerfile), context: absolute(context), args, target }
}

/** The image of the relay: the flag's, the variable's, or that of this version. */
export function sidecarImage(host: SandboxHost, { flags, version }: RunOptions): string {
  return (
    flags.sidecar_image ?? host.env['ITERION_SANDBOX_SIDECAR_IMAGE'] ?? `iterion-egress:${version}`
  )
}
