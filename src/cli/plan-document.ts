import { portsTakenBy } from '../door/door.ts'
import { planDoor } from '../door/door-plan.ts'
import type { EgressError } from '../errors.ts'
import type { Policy } from '../policy/policy.ts'
import { formatPorts } from '../policy/ports.ts'
import type { PlannedRun, PlannedSandbox } from '../sandbox/plan-run.ts'

/** What `plan --json` prints: a stable form of a run that does not run yet. */
export function planDocument(run: PlannedRun, policy: Policy | undefined) {
  const { plan, decision, sandbox, nodes, dropped, refusal } = run
  return {
    workflow: plan.workflow.file,
    sandboxed: decision.kind === 'sandboxed',
    mode: decision.kind === 'sandboxed' ? decision.mode : 'none',
    decided_by: decision.decidedBy ?? null,
    overruled: decision.overruled,
    notes: decision.notes,
    seal: decision.kind === 'sealed' ? ('process' as const) : null,
    file_secrets_dropped: 'fileSecretsDropped' in decision && decision.fileSecretsDropped,
    warning: 'warning' in decision ? (decision.warning ?? null) : null,
    shadowed: shadowedBy(run),
    refusal: refusal ? refusalDocument(refusal) : null,
    network: networkDocument(run, policy),
    transparent: transparentDocument(run, policy),
    resolve: run.resolve,
    sandbox: sandbox ? sandboxDocument(sandbox) : null,
    nodes: nodes.map(({ id, backend, fallback, words, input }) => ({
      id,
      backend,
      fallback,
      command: words,
      input: input ?? null,
    })),
    dropped_fallbacks: dropped,
  }
}

export type PlanDocument = ReturnType<typeof planDocument>

/** `host`: without a sandbox nothing holds. */
function networkDocument({ decision, network }: PlannedRun, policy: Policy | undefined) {
  if (decision.kind === 'bare') {
    return { kind: 'host' as const, policy_dropped: network.kind === 'policy' }
  }
  if (network.kind === 'open' || policy === undefined) return { kind: 'open' as const }
  return {
    kind: 'policy' as const,
    mode: policy.mode,
    rules: policy.rules.length,
    digest: policy.digest,
    defaulted: network.defaulted ?? null,
  }
}

/** What programs reach that know of no proxy; null: nothing is sealed. */
function transparentDocument({ sandbox, seal, network }: PlannedRun, policy: Policy | undefined) {
  const hasDoor = sandbox?.door === 'netns' || sandbox?.door === 'sidecar'
  const sealed = hasDoor ? sandbox : seal
  if (sealed === undefined || network.kind === 'open' || policy === undefined) return null
  const plan = planDoor(policy)
  const { whyTakesPorts: why } = sealed
  return {
    ports: plan.ports,
    addresses: plan.routes.map(({ cidr }) => cidr),
    synthetic_range: plan.range,
    only_by_proxy: {
      ports: formatPorts(plan.onlyByProxy.ports),
      addresses: plan.onlyByProxy.addresses,
    },
    taken: why === undefined ? null : { ports: portsTakenBy(plan), why },
  }
}

/** What was asked for and does not hold, by the floor or guard that is the reason. */
function shadowedBy({ decision }: PlannedRun) {
  if (decision.kind !== 'sandboxed') return []
  return [decision.floor, decision.guard].filter((one) => one !== undefined)
}

function refusalDocument({ code, message, at, problems }: EgressError) {
  return { code, message, at: at ?? null, ...(problems.length > 1 && { problems }) }
}

function sandboxDocument(sandbox: PlannedSandbox) {
  const { image, layout, hostState, environment, door, phases, postCreate, argv } = sandbox
  return {
    image: {
      name: image.name,
      from: image.from,
      id: image.id ?? null,
      is_here: image.id !== undefined,
      build: image.build ?? null,
    },
    user: layout.user.user,
    image_user: layout.user.remap?.from ?? null,
    workdir: layout.workdir,
    host_state: hostState,
    mounts: layout.mounts.map(({ source, target, readOnly }) => ({
      source,
      target,
      read_only: readOnly,
    })),
    volumes: layout.volumes.map(({ target }) => target),
    tmpfs: layout.tmpfs.map(({ target, sizeBytes }) => ({ target, bytes: sizeBytes })),
    environment: environment.map(({ name, value, from }) => ({
      name,
      value: value ?? null,
      hidden: value === undefined,
      from,
    })),
    denied: sandbox.denied,
    door: door ?? 'none',
    phases: phases.map(({ name, boundMs, knob }) => ({ name, bound_ms: boundMs, knob })),
    memory_bytes: sandbox.memoryBytes,
    pids: sandbox.pidsLimit,
    post_create: postCreate.flatMap(({ atOnce, user }) =>
      atOnce.map((command) => ({ command, user })),
    ),
    notes: sandbox.notes,
    warnings: sandbox.warnings,
    argv,
  }
}
