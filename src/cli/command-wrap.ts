import { constants as osConstants } from 'node:os'
import { DOOR_HOST, DOOR_PORT, lackOf } from '../door/door.ts'
import { processDoor } from '../door/process-door.ts'
import { type ProcessSeal, type ProcessSealing, startProcessSeal } from '../door/process-seal.ts'
import { EgressError } from '../errors.ts'
import { type EventLog, openEventLog } from '../events/event-log.ts'
import type { EgressEvent } from '../events/event.ts'
import type { Policy } from '../policy/policy.ts'
import { OWN_FAILURE } from '../sandbox/drive-run.ts'
import type { SandboxHost } from '../sandbox/host.ts'
import { sealedEnvironment } from '../sandbox/sealed-environment.ts'
import type { Io } from './io.ts'
import type { PolicyOptions } from './policy-flags.ts'
import { policyFrom } from './policy-options.ts'
import { renderError, renderJson, renderJsonError, toEgressError } from './render.ts'
import { parseResolveOptions } from './resolve-option.ts'
import { findWrapUser, type WrapUser } from './wrap-account.ts'
import { WrapAudit } from './wrap-audit.ts'

/** The options of `wrap`, as they are typed. */
export interface WrapOptions extends PolicyOptions {
  readonly resolve: readonly string[]
  readonly audit?: boolean
  readonly events?: string
  readonly user?: string
  readonly asRoot?: boolean
  readonly json?: boolean
}

const AS_ROOT =
  'iterion-egress: warning: --as-root: the command is root on the file system of this machine, and root can walk out by it\n'

/**
 * `wrap`: seals one command of this machine.
 *
 * @param command the words behind `--`; undefined if there is none
 * @returns the command's exit code, 128+N if signal N ended it, 125 for everything that is not the command's
 */
export async function runWrap(
  io: Io,
  command: readonly string[] | undefined,
  options: WrapOptions,
): Promise<number> {
  const stop = stopper(io)
  try {
    if (command === undefined || command.length === 0) {
      throw new EgressError('USAGE', 'name a command: wrap --preset NAME -- COMMAND')
    }
    const host = io.sandboxHost()
    const user = await findWrapUser(host, options)
    if (options.asRoot === true) io.stderr(AS_ROOT)
    return await sealed({ io, host, user, command, options, stop })
  } catch (error) {
    if (stop.signal !== undefined) return 128 + osConstants.signals[stop.signal]
    const failure = toEgressError(error)
    io.stderr(options.json === true ? renderJsonError(failure) : renderError(failure))
    return OWN_FAILURE
  }
}

interface WrapRequest {
  readonly io: Io
  readonly host: SandboxHost
  readonly user: WrapUser
  readonly command: readonly string[]
  readonly options: WrapOptions
  readonly stop: Stopper
}

/** Runs the command behind a door, and reports. */
async function sealed(request: WrapRequest): Promise<number> {
  const { io, host, user, command, options, stop } = request
  // The policy is read while the namespaces come to be.
  const sealing = startProcessSeal({
    spawn: host.spawn,
    searchPath: host.env['PATH'],
    user,
    runtimeFolder: host.env['XDG_RUNTIME_DIR'],
    directory: host.cwd,
    command,
    commandEnv: {
      ...sealedEnvironment(host.env, `http://${DOOR_HOST}:${DOOR_PORT}`),
      ...user.env,
    },
    stdio: io.stdio,
  })
  stop.attach(sealing)
  let log: EventLog | undefined
  try {
    const { policy } = policyFrom(options)
    if (options.events !== undefined) log = openEventLog(options.events)
    const audit = new WrapAudit()
    const emit = (event: EgressEvent) => {
      if (options.audit === true) audit.record(event)
      log?.write(event)
    }
    const code = await behindDoor(request, sealing, policy, emit)
    if (options.audit === true) io.stderr(reportOf(audit, policy, options))
    return code
  } finally {
    sealing.close()
    await log?.close()
  }
}

/** Opens the door, has it proven, and lets the command run. */
async function behindDoor(
  { io, host, options, stop }: WrapRequest,
  sealing: ProcessSealing,
  policy: Policy,
  emit: (event: EgressEvent) => void,
): Promise<number> {
  const resolver = parseResolveOptions(options.resolve).toResolver(host.resolver)
  const audit = options.audit === true
  const door = processDoor({ policy, resolver, audit, emit, now: host.now })
  let seal: ProcessSeal | undefined
  try {
    seal = await door.open(sealing)
    const lacking = lackOf(seal)
    if (lacking !== undefined)
      io.stderr(`iterion-egress: warning: ${lacking}
`)
    emit({ type: 'sandbox_network_sealed', data: { door: 'process', strength: 'process' } })
    stop.passOn(seal)
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

/** What becomes of the signals that this process gets. */
interface Stopper {
  /** The one that ended the set-up; undefined: none did. */
  readonly signal: NodeJS.Signals | undefined
  /** Gives it what there is to end. */
  attach(sealing: ProcessSealing): void
  /** From now on signals are the command's. */
  passOn(seal: ProcessSeal): void
}

function stopper(io: Io): Stopper {
  let signal: NodeJS.Signals | undefined
  let sealing: ProcessSealing | undefined
  let running: ProcessSeal | undefined
  io.onSignal((one) => {
    if (running) {
      running.signal(one)
    } else if (one !== 'SIGWINCH') {
      signal ??= one
      sealing?.close()
    }
  })
  return {
    get signal() {
      return signal
    },
    attach(started) {
      sealing = started
      if (signal !== undefined) sealing.close()
    },
    passOn: (seal) => (running = seal),
  }
}
