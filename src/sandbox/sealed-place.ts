import { processDoor } from '../door/process-door.ts'
import { type ProcessSeal, startProcessSeal } from '../door/process-seal.ts'
import { EgressError } from '../errors.ts'
import type { Policy } from '../policy/policy.ts'
import { type BareSite, bareSite } from './bare-site.ts'
import type { NodePlace, RunTools } from './drive-run.ts'
import type { SandboxHost } from './host.ts'
import { readKnobs } from './knobs.ts'
import type { NodeProcess } from './node-process.ts'
import { runPhase } from './phase.ts'
import { NO_RUNTIME } from './resolve-spec.ts'
import type { RunOptions, RunPlan } from './run-plan.ts'
import { DOOR_URL } from './sandbox-network.ts'
import { sealedEnvironment } from './sealed-environment.ts'
import type { NodeSpec } from './spec.ts'

/** A node whose seal is proven, and that does not run yet. */
interface HeldNode {
  readonly node: NodeSpec
  readonly seal: ProcessSeal
}

/**
 * Where nodes run without a container, each in a seal of its own: what one leaves in the background ends with it. The seal of
 * the first is made and proven here, so that nothing starts where none can be.
 *
 * @throws {EgressError} SANDBOX_DRIVER_UNAVAILABLE with what is missing; what a bare run is refused for
 */
export async function sealedPlace(
  host: SandboxHost,
  { workflow }: Pick<RunPlan, 'workflow'>,
  policy: Policy,
  tools: RunTools,
  options: RunOptions,
): Promise<NodePlace> {
  const { handle, emit, control, teardown } = tools
  const site = bareSite(host, workflow, options.workspace)
  const { knobs, warnings } = readKnobs(host.env)
  for (const warning of warnings) options.say(`warning: ${warning}`)
  const said = new Set<string>()
  const warn = (text: string) => {
    if (!said.has(text)) options.say(`warning: ${text}`)
    said.add(text)
  }
  const { resolver, now } = host
  const door = processDoor({ policy, resolver, audit: false, emit, now })
  teardown.add('proxy', () => door.close())

  const seal = (node: NodeSpec) =>
    runPhase(knobs.door, emit, control.signal, async (signal) => {
      const sealing = startProcessSeal(sealSite(host, workflow, site, node, options))
      let close = () => sealing.close()
      teardown.add('door', () => close())
      signal.addEventListener('abort', () => sealing.close(), { once: true })
      const opened = await door.open(sealing)
      close = () => opened.close()
      for (const text of opened.warnings) warn(text)
      return opened
    })
  const isDone = new Set(handle.record.checkpoint.done.map((one) => one.node))
  const first = workflow.nodes.find(({ id }) => !isDone.has(id))
  let held: HeldNode | undefined = first && {
    node: first,
    seal: await seal(first).catch(refuse),
  }

  return {
    start(one) {
      const { id, backend } = one
      const isReady = held?.node.id === id && held.node.backend === backend
      const ready = isReady && held ? Promise.resolve(held.seal) : seal(one)
      held = undefined
      return sealedNode(ready, () => {
        emit({ type: 'sandbox_network_sealed', data: { door: 'process', strength: 'process' } })
      })
    },
  }
}

/** What cannot be sealed does not run: the policy would be thrown away. */
function refuse(error: unknown): never {
  const isSeal =
    error instanceof EgressError &&
    (error.code === 'SANDBOX_DOOR_FAILED' || error.code === 'PROGRAM_MISSING')
  if (!isSeal) throw error
  throw new EgressError('SANDBOX_DRIVER_UNAVAILABLE', `${NO_RUNTIME}, and ${error.message}`, {
    cause: error,
  })
}

function sealSite(
  host: SandboxHost,
  workflow: RunPlan['workflow'],
  site: BareSite,
  node: NodeSpec,
  { workspace, operatorEnv, stdio }: RunOptions,
) {
  const { words, input } = site.program(node)
  const { uid, gid } = host.user
  const env = { ...host.env, ...workflow.sandbox?.env, ...site.secretEnv, ...operatorEnv }
  return {
    spawn: host.spawn,
    homes: [host.home],
    user: { caller: { uid, gid }, account: undefined },
    runtimeFolder: host.env['XDG_RUNTIME_DIR'],
    directory: workspace,
    command: words,
    commandEnv: sealedEnvironment(env, DOOR_URL),
    stdio,
    input,
  }
}

/** A node in its seal, which may still come to be: signals wait for it. */
function sealedNode(ready: Promise<ProcessSeal>, onSealed: () => void): NodeProcess {
  let running: ProcessSeal | undefined
  const early: NodeJS.Signals[] = []
  const signal = (name: NodeJS.Signals) => {
    if (running) running.signal(name)
    else early.push(name)
  }
  const run = async () => {
    const seal = await ready
    try {
      onSealed()
      running = seal
      for (const name of early) seal.signal(name)
      return await seal.run()
    } finally {
      seal.close()
    }
  }
  return { done: run(), signal, output: [], resize: () => signal('SIGWINCH') }
}
