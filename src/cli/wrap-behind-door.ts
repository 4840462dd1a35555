import { processDoor } from '../door/process-door.ts'
import type { ProcessSeal, ProcessSealing } from '../door/process-seal.ts'
import type { EventLog } from '../events/event-log.ts'
import type { EgressEvent } from '../events/event.ts'
import type { Policy } from '../policy/policy.ts'
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
  const resolver = parseResolveOptions(options.resolve).toResolver(host.resolver)
  const audit = options.audit === true
  const door = processDoor({ policy, resolver, audit, emit, now: host.now })
  let seal: ProcessSeal | undefined
  try {
    seal = await door.open(sealing)
    for (const text of seal.warnings) io.stderr(`iterion-egress: warning: ${text}\n`)
    emit({ type: 'sandbox_network_sealed', data: { door: 'process', strength: 'process' } })
    onSealed(seal)
    return await seal.run()
  } finally {
    seal?.close()
    await door.close()
  }
}

function reportOf(audit: WrapAudit, policy: Policy, { json }: WrapOptions): string {
  const nowMs = Date.now()
  return json === true
    ? renderJson({ audit: audit.report(policy, nowMs) })
    : audit.render(policy, nowMs)
}
