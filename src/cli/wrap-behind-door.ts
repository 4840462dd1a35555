import { lackOf } from '../door/door.ts'
import { planDoor } from '../door/door-plan.ts'
import type { ProcessSeal, ProcessSealing } from '../door/process-seal.ts'
import { serveDoor, steady } from '../door/serve-door.ts'
import { SyntheticNames } from '../door/synthetic-names.ts'
import type { EventLog } from '../events/event-log.ts'
import type { EgressEvent } from '../events/event.ts'
import type { Policy } from '../policy/policy.ts'
import { createEgressProxy } from '../proxy/egress-proxy.ts'
import type { SandboxHost } from '../sandbox/host.ts'
import type { WrapOptions } from './command-wrap.ts'
import type { Io } from './io.ts'
import { policyFrom } from './policy-options.ts'
import { renderJson } from './render.ts'
import { parseResolveOptions } from './resolve-option.ts'
import { WrapAudit } from './wrap-audit.ts'

/** A command whose namespaces come to be. */
interface Wrapping {
  readonly io: Io
  readonly host: SandboxHost
  readonly options: WrapOptions
  readonly sealing: ProcessSealing
  /** Is called when the command may run. */
  readonly onSealed: (seal: ProcessSeal) => void
}

/** Runs the command behind a door, and reports. Loaded while the namespaces come to be: it is nearly all of the program. */
export async function runBehindDoor(wrapping: Wrapping): Promise<number> {
  const { io, options } = wrapping
  let log: EventLog | undefined
  try {
    const { policy } = policyFrom(options)
    log = await openLog(options)
    const audit = new WrapAudit()
    const emit = (event: EgressEvent) => {
      if (options.audit === true) audit.record(event)
      log?.write(event)
    }
    const code = await serveAndRun(wrapping, policy, emit)
    if (options.audit === true) io.stderr(reportOf(audit, policy, options))
    return code
  } finally {
    await log?.close()
  }
}

async function openLog({ events }: WrapOptions): Promise<EventLog | undefined> {
  if (events === undefined) return undefined
  const { openEventLog } = await import('../events/event-log.ts')
  return openEventLog(events)
}

/** Opens the door, has it proven, and lets the command run. */
async function serveAndRun(
  { io, host, options, sealing, onSealed }: Wrapping,
  policy: Policy,
  emit: (event: EgressEvent) => void,
): Promise<number> {
  const plan = planDoor(policy)
  const opening = sealing.open(plan)
  // It is waited for below; until then its failure is nobody's.
  opening.catch(() => undefined)
  const now = steady(host.now)
  const names = new SyntheticNames(policy.door.syntheticRange, now)
  const proxy = createEgressProxy({
    policy,
    resolver: parseResolveOptions(options.resolve).toResolver(host.resolver),
    audit: options.audit === true,
    onEvent: emit,
    now: host.now,
    names,
  })
  let seal: ProcessSeal | undefined
  try {
    seal = await opening
    const lacking = lackOf(seal)
    if (lacking !== undefined) io.stderr(`iterion-egress: warning: ${lacking}\n`)
    serveDoor(seal, proxy, { plan, names, now })
    await seal.probe()
    emit({ type: 'sandbox_network_sealed', data: { door: 'process', strength: 'process' } })
    onSealed(seal)
    return await seal.run()
  } finally {
    seal?.close()
    await proxy.close({ drainTimeoutMs: 0 })
  }
}

function reportOf(audit: WrapAudit, policy: Policy, { json }: WrapOptions): string {
  const nowMs = Date.now()
  return json === true
    ? renderJson({ audit: audit.report(policy, nowMs) })
    : audit.render(policy, nowMs)
}
