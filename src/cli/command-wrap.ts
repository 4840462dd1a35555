import { constants as osConstants } from 'node:os'
import { DOOR_HOST, DOOR_PORT } from '../door/door.ts'
import { type ProcessSeal, type ProcessSealing, startProcessSeal } from '../door/process-seal.ts'
import { EgressError } from '../errors.ts'
import { OWN_FAILURE } from '../sandbox/drive-run.ts'
import type { SandboxHost } from '../sandbox/host.ts'
import { sealedEnvironment } from '../sandbox/sealed-environment.ts'
import type { Io } from './io.ts'
import type { PolicyOptions } from './policy-flags.ts'
import { renderError, renderJsonError, toEgressError } from './render.ts'
import { findWrapUser, type WrapUser } from './wrap-account.ts'

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

/** Root did not ask to be somebody else, whose programs fail in root's folders. */
function asNobody({ account, env }: WrapUser): string {
  const { HOME } = env
  return `iterion-egress: root's command ran as ${account?.name ?? 'another user'} (HOME=${HOME ?? '/'}); --user NAME takes somebody else\n`
}

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
    assertText(command)
    const host = io.sandboxHost()
    const user = await findWrapUser(host, options)
    if (options.asRoot === true) io.stderr(AS_ROOT)
    const code = await sealed({ io, host, user, command, options, stop })
    const isUnasked = user.account !== undefined && options.user === undefined
    if (code !== 0 && isUnasked && options.json !== true) io.stderr(asNobody(user))
    return code
  } catch (error) {
    if (stop.signal !== undefined) return 128 + osConstants.signals[stop.signal]
    const failure = toEgressError(error)
    io.stderr(options.json === true ? renderJsonError(failure) : renderError(failure))
    return OWN_FAILURE
  }
}

/** Node.js reads arguments as UTF-8: bytes that are none would reach the command as others, and name other files. */
function assertText(command: readonly string[]): void {
  const broken = command.find((word) => word.includes('\uFFFD'))
  if (broken === undefined) return
  throw new EgressError(
    'USAGE',
    `${JSON.stringify(broken)} is not UTF-8: rename it, or reach it by a pattern`,
  )
}

interface WrapRequest {
  readonly io: Io
  readonly host: SandboxHost
  readonly user: WrapUser
  readonly command: readonly string[]
  readonly options: WrapOptions
  readonly stop: Stopper
}

/** Has the namespaces made, and meanwhile loads and does all the rest. */
async function sealed(request: WrapRequest): Promise<number> {
  const { io, host, user, command, options, stop } = request
  const sealing = startProcessSeal({
    spawn: host.spawn,
    homes: [host.home, ...(user.env['HOME'] === undefined ? [] : [user.env['HOME']])],
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
  try {
    const { runBehindDoor } = await import('./wrap-behind-door.ts')
    return await runBehindDoor({ io, host, options, sealing, onSealed: stop.passOn })
  } finally {
    sealing.close()
  }
}

/** What becomes of the signals that this process gets. */
interface Stopper {
  /** The one that ended the set-up; undefined: none did. */
  readonly signal: NodeJS.Signals | undefined
  /** Gives it what there is to end. */
  attach(sealing: ProcessSealing): void
  /** From now on signals are the command's. */
  readonly passOn: (seal: ProcessSeal) => void
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
