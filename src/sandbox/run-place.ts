import { EgressError } from '../errors.ts'
import type { EventData } from '../events/event.ts'
import type { Policy } from '../policy/policy.ts'
import { assertSandboxable } from './backend.ts'
import type { NodePlace, RunTools } from './drive-run.ts'
import type { SandboxHost } from './host.ts'
import type { SandboxedSpec, SealedSpec } from './resolve-spec.ts'
import type { RunOptions, RunPlan } from './run-plan.ts'

/**
 * Makes the place that the nodes of a run are started in, and says in its events which one it is.
 *
 * @throws {EgressError} SANDBOX_DRIVER_UNAVAILABLE for a run that must not start; what the set-up throws
 */
export async function makePlace(
  host: SandboxHost,
  plan: RunPlan,
  tools: RunTools,
  options: RunOptions,
): Promise<NodePlace> {
  const { decision, network } = plan
  const { emit } = tools
  for (const note of decision.notes) options.say(note)
  switch (decision.kind) {
    case 'refused': {
      const { failureCode, message } = decision
      emit({ type: 'sandbox_refused', data: { failure_code: failureCode, message } })
      throw new EgressError(failureCode, message)
    }
    case 'bare': {
      const { reason, code, warning, fileSecretsDropped } = decision
      if (warning !== undefined) options.say(`warning${code ? ` ${code}` : ''}: ${warning}`)
      emit({
        type: 'sandbox_skipped',
        data: {
          reason,
          ...(code && { code }),
          ...(fileSecretsDropped && { file_secrets_dropped: true as const }),
        },
      })
      // Also a policy that does not hold is read: what is wrong with it is told.
      await recordPolicy(plan, tools)
      return barePlace(host, plan, options)
    }
    case 'sealed':
      return sealedNodes(host, plan, decision, tools, options)
    case 'sandboxed': {
      refuseUnsafe(() => assertSandboxable(plan.workflow.nodes), tools)
      for (const { node, backend, reason } of plan.dropped) {
        options.say(`node ${node}: the fallback ${backend} is left out: ${reason}`)
        emit({ type: 'sandbox_fallback_dropped', data: { node, backend, reason } })
      }
      for (const applied of [decision.floor, decision.guard]) {
        if (!applied) continue
        const { floor, shadowed } = applied
        emit({ type: 'sandbox_floor_applied', data: { floor, shadowed: [...shadowed] } })
      }
      if (network.kind === 'policy' && network.defaulted) {
        const { preset, source } = network.defaulted
        options.say(`${source} chose the sandbox, so its network is held to ${preset}`)
        emit({ type: 'sandbox_network_defaulted', data: network.defaulted })
      }
      if (network.kind === 'open' && options.flags.resolve.length > 0) {
        const { RESOLVE_IN_VAIN } = await import('./sandbox-network.ts')
        options.say(`warning: ${RESOLVE_IN_VAIN}`)
      }
      return sandboxPlace(host, plan, decision, tools, options)
    }
  }
}

async function sandboxPlace(
  host: SandboxHost,
  plan: RunPlan,
  decision: SandboxedSpec,
  tools: RunTools,
  options: RunOptions,
): Promise<NodePlace> {
  const { engine } = plan
  if (engine === undefined) throw new TypeError('a sandbox without a runtime')
  refuseUnsafe(() => assertNoFault(decision), tools)
  const { setUpSandbox } = await import('./sandbox.ts')
  const { sandboxRequest } = await import('./sandbox-request.ts')
  const setUp = async () => {
    const load = () => recordPolicy(plan, tools)
    const { request, warnings } = sandboxRequest(host, plan, decision, options, load)
    for (const warning of warnings) options.say(`warning: ${warning}`)
    return setUpSandbox(request, { host, runtime: engine.runtime, driver: engine.driver, ...tools })
  }
  return setUp().catch((error: unknown) => {
    if (error instanceof EgressError && error.code === 'SANDBOX_SPEC_UNSAFE') {
      tools.emit({ type: 'sandbox_refused', data: refusal(error) })
    }
    throw error
  })
}

function assertNoFault({ container }: SandboxedSpec): void {
  if ('fault' in container) throw container.fault
}

/** Runs a check, and says in an event what it refuses. */
function refuseUnsafe(check: () => void, { emit }: RunTools): void {
  try {
    check()
  } catch (error) {
    if (error instanceof EgressError) emit({ type: 'sandbox_refused', data: refusal(error) })
    throw error
  }
}

function refusal({ code, message, at }: EgressError): EventData<'sandbox_refused'> {
  const place = at ? `${at.file}:${at.line}:${at.column}: ` : ''
  return { failure_code: code, message: `${place}${message}` }
}

async function recordPolicy(
  plan: RunPlan,
  { handle }: Pick<RunTools, 'handle'>,
): Promise<Policy | undefined> {
  const policy = await plan.loadPolicy()
  handle.update({ policy_digest: policy?.digest ?? null })
  return policy
}

/** Makes the place of a run whose nodes are sealed. That it goes on without a container is told when it can. */
async function sealedNodes(
  host: SandboxHost,
  plan: RunPlan,
  { reason, warning, fileSecretsDropped }: SealedSpec,
  tools: RunTools,
  options: RunOptions,
): Promise<NodePlace> {
  const { sealedPlace } = await import('./sealed-place.ts')
  const policy = await recordPolicy(plan, tools)
  if (policy === undefined) throw new TypeError('a policy was lost')
  options.say(`warning: ${warning}`)
  const place = await sealedPlace(host, plan, policy, tools, options).catch((error: unknown) => {
    if (error instanceof EgressError && error.code === 'SANDBOX_DRIVER_UNAVAILABLE') {
      tools.emit({ type: 'sandbox_refused', data: refusal(error) })
    }
    throw error
  })
  tools.handle.update({ seal: 'process' })
  const dropped = fileSecretsDropped && { file_secrets_dropped: true as const }
  tools.emit({ type: 'sandbox_skipped', data: { reason, seal: 'process', ...dropped } })
  return place
}

async function barePlace(
  host: SandboxHost,
  { workflow }: RunPlan,
  options: RunOptions,
): Promise<NodePlace> {
  const { startHostNode } = await import('./node-process.ts')
  const { bareSite } = await import('./bare-site.ts')
  const site = bareSite(host, workflow, options.workspace)
  const env = { ...workflow.sandbox?.env, ...site.secretEnv, ...options.operatorEnv }
  return {
    start: (node) => {
      const { workspace, stdio } = options
      const say = (line: string) => options.say(`node ${node.id}: ${line}`)
      return startHostNode(host, site.program(node), workspace, env, stdio, say)
    },
  }
}
