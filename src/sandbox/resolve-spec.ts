import type { RuntimeName } from '../door/container-runtime.ts'
import type { ErrorCode } from '../errors.ts'
import {
  type ChosenContainer,
  chooseContainer,
  type DefaultImage,
  type RepositorySandbox,
} from './choose-container.ts'
import { type AppliedFloor, type HostStateRequest, resolveHostState } from './resolve-host-state.ts'
import { readVariable } from './read-variable.ts'
import { type HostState, MODES, type SandboxBlock, type SandboxMode } from './spec.ts'

/** Everything that decides whether a run gets a sandbox, and which. Texts are values of variables, undefined if unset. */
export interface SpecRequest {
  /** `--sandbox`. */
  readonly cli?: SandboxMode | undefined
  /** `ITERION_SANDBOX_OVERRIDE`. */
  readonly override?: string | undefined
  /** `sandbox:` of the workflow. */
  readonly workflow: SandboxBlock | undefined
  /** The workflow's file, for messages. */
  readonly workflowFile: string
  /** `ITERION_SANDBOX_DEFAULT`. */
  readonly default?: string | undefined
  /** What holds where nobody says anything: `auto` at the command line, undefined (no sandbox) for a library. */
  readonly builtIn: 'auto' | undefined
  /** `ITERION_SANDBOX_FLOOR`. */
  readonly floor?: string | undefined
  /** The runtime found on PATH. One that is there and does not answer is still one. */
  readonly runtime: RuntimeName | undefined
  /** Why nodes cannot be sealed as processes of this machine; undefined: nothing is known that would keep them from it. */
  readonly whyNoSeal: string | undefined
  /** True if the workflow itself has a policy. */
  readonly hasPolicy: boolean
  readonly defaultImage: DefaultImage
  /** The sandbox that the repository defines, if it does. */
  readonly repository?: RepositorySandbox | undefined
  readonly hostState: HostStateRequest
  /** True if the workflow has secrets `as: file`. */
  readonly hasFileSecrets: boolean
}

/** Who asked for the mode. */
export type Tier = 'cli' | 'override' | 'workflow' | 'default' | 'built-in'

interface Decided {
  /** The strongest tier that said something; undefined if none did. */
  readonly decidedBy: Tier | undefined
  /** What others said that is weaker and another mode, as people wrote it. */
  readonly overruled: readonly string[]
  /** Lines for people, such as one about a flag and a variable that differ. */
  readonly notes: readonly string[]
}

/** The run gets a container. */
export interface SandboxedSpec extends Decided {
  readonly kind: 'sandboxed'
  readonly mode: Exclude<SandboxMode, 'none'>
  readonly container: ChosenContainer
  readonly hostState: HostState
  /**
   * Set if `ITERION_SANDBOX_FLOOR` raised the mode: all that asked for less, also tiers that did not decide; empty if
   * nobody asked for anything.
   */
  readonly floor?: AppliedFloor
  /** Set if `ITERION_SANDBOX_HOST_STATE_GUARD` kept the host state out. */
  readonly guard?: AppliedFloor
}

/** The run goes on without a container. */
export interface BareSpec extends Decided {
  readonly kind: 'bare'
  readonly reason: 'mode-none' | 'no-runtime' | 'not-asked-for'
  /** Set if somebody asked for no sandbox. */
  readonly code?: 'C128'
  /** What is at risk; nothing where nobody expects a sandbox. */
  readonly warning?: string
  readonly fileSecretsDropped: boolean
}

/** The run goes on without a container, and its nodes are sealed as processes of this machine: they hold to its policy. */
export interface SealedSpec extends Decided {
  readonly kind: 'sealed'
  readonly reason: 'no-runtime'
  /** What is at risk all the same. */
  readonly warning: string
  readonly fileSecretsDropped: boolean
}

/** The run must not start. */
export interface RefusedSpec extends Decided {
  readonly kind: 'refused'
  readonly failureCode: Extract<ErrorCode, 'SANDBOX_DRIVER_UNAVAILABLE' | 'OPTION_INVALID'>
  readonly message: string
}

export type SpecDecision = SandboxedSpec | SealedSpec | BareSpec | RefusedSpec

interface Voice {
  readonly tier: Tier
  readonly mode: SandboxMode
  /** As people wrote it. */
  readonly text: string
}

/**
 * Decides whether a run gets a sandbox. The one resolver: a forecast and the run itself ask it. In this order:
 *
 * 1. A variable that is set has a value that is known, or nothing starts.
 * 2. The strongest tier that says something decides: `--sandbox`, then ITERION_SANDBOX_OVERRIDE (a flag that differs
 *    wins, and a note says so), the workflow (its mode; an image or build without a mode is `inline`, a policy without
 *    either is `auto`: only a sandbox can hold it), ITERION_SANDBOX_DEFAULT, the built-in.
 * 3. `inline`, whoever says it, needs a block that names its container; without one it is refused.
 * 4. `auto`, whoever says it, yields to such a block and becomes `inline`. `none` yields to nothing.
 * 5. ITERION_SANDBOX_FLOOR raises what is below it (none < auto < inline). The container is the one that `auto` would
 *    have had, the block's own included.
 * 6. `none` runs bare, with C128 if somebody said it.
 * 7. Without a runtime `inline` is refused, and so is every mode under a floor above none: both are guarantees. `auto`
 *    runs bare if its network is open. If the workflow has a policy its nodes are sealed as processes, and where they
 *    cannot be it is refused.
 * 8. The mode decides, never the tier.
 *
 * @throws {EgressError} OPTION_INVALID for a variable, or a default image, whose value cannot be used
 */
export function resolveSpec(request: SpecRequest): SpecDecision {
  const floor = readVariable('ITERION_SANDBOX_FLOOR', request.floor, MODES) ?? 'none'
  const voices = collectVoices(request)
  const { hostState, guard } = resolveHostState(request.hostState, request)
  const container = chooseContainer(request)
  const asked = voices[0]
  const notes = notesOn(voices)
  const decided: Decided = { decidedBy: asked?.tier, overruled: overruledBy(voices), notes }
  const ownContainer = container.from === 'block'

  if (asked?.mode === 'inline' && !ownContainer) {
    const message = `${asked.text} needs a container of its own: write image or build in sandbox: of ${request.workflowFile}`
    return { kind: 'refused', failureCode: 'OPTION_INVALID', message, ...decided }
  }
  const effective = (one: SandboxMode) => (one === 'auto' && ownContainer ? 'inline' : one)
  const own = effective(asked?.mode ?? 'none')
  const isRaised = isBelow(own, floor)
  const mode = isRaised ? effective(floor) : own
  if (mode === 'none') return bareSpec(request, asked, decided)
  if (request.runtime === undefined) return withoutRuntime(request, mode, floor, decided)
  const shadowed = voices
    .filter((one) => isBelow(effective(one.mode), floor))
    .map(({ text }) => text)
  return {
    kind: 'sandboxed',
    mode,
    container,
    hostState,
    ...(isRaised && { floor: { floor: `ITERION_SANDBOX_FLOOR=${floor}`, shadowed } }),
    ...(guard && { guard }),
    ...decided,
  }
}

/** What every tier says, the strongest first. */
function collectVoices(request: SpecRequest): readonly Voice[] {
  const { workflow, workflowFile, builtIn, hasPolicy } = request
  const override = readVariable('ITERION_SANDBOX_OVERRIDE', request.override, MODES)
  const fallback = readVariable('ITERION_SANDBOX_DEFAULT', request.default, MODES)
  const own = modeOf(workflow)
  // A policy asks for a sandbox: nothing else can hold it, and nobody weaker may throw it away.
  const implied = own === undefined && hasPolicy ? 'auto' : undefined
  const voices: (Voice | undefined)[] = [
    voice('cli', request.cli, `--sandbox ${request.cli}`),
    voice('override', override, `ITERION_SANDBOX_OVERRIDE=${override}`),
    voice('workflow', own, `sandbox: ${own} of ${workflowFile}`),
    voice('workflow', implied, `the policy of ${workflowFile}`),
    voice('default', fallback, `ITERION_SANDBOX_DEFAULT=${fallback}`),
    voice('built-in', builtIn, `${builtIn}, the built-in default`),
  ]
  return voices.filter((one) => one !== undefined)
}

function voice(tier: Tier, mode: SandboxMode | undefined, text: string): Voice | undefined {
  return mode && { tier, mode, text }
}

function modeOf(block: SandboxBlock | undefined): SandboxMode | undefined {
  if (block?.mode !== undefined) return block.mode
  return block?.image === undefined && block?.build === undefined ? undefined : 'inline'
}

function notesOn([first, second]: readonly Voice[]): readonly string[] {
  if (first?.tier !== 'cli' || second?.tier !== 'override' || first.mode === second.mode) return []
  return [`${first.text} wins over ${second.text}`]
}

/** What was said in vain. A default of this program is nobody's word. */
function overruledBy([first, ...others]: readonly Voice[]): readonly string[] {
  return others
    .filter(({ tier, mode }) => tier !== 'built-in' && mode !== first?.mode)
    .map(({ text }) => text)
}

function isBelow(mode: SandboxMode, floor: SandboxMode): boolean {
  return MODES.indexOf(mode) < MODES.indexOf(floor)
}

function bareSpec(request: SpecRequest, asked: Voice | undefined, decided: Decided): BareSpec {
  const fileSecretsDropped = request.hasFileSecrets
  if (asked === undefined) {
    return { kind: 'bare', reason: 'not-asked-for', fileSecretsDropped, ...decided }
  }
  const policy = request.hasPolicy ? `; the policy of ${request.workflowFile} does not hold` : ''
  return {
    kind: 'bare',
    reason: 'mode-none',
    code: 'C128',
    warning: `${asked.text}: ${RISK}${policy}`,
    fileSecretsDropped,
    ...decided,
  }
}

const RISK =
  'the commands run on this machine without a sandbox, with all rights of the caller, and nothing limits what they reach'

/** Of this machine. */
export const NO_RUNTIME = 'no container runtime (docker or podman) is on PATH'

const SEALED_RISK =
  'the commands run on this machine with the files of the caller, and nothing limits what they read and write; what they reach by the network is held by a process seal to'

function withoutRuntime(
  request: SpecRequest,
  mode: SandboxMode,
  floor: SandboxMode,
  decided: Decided,
): BareSpec | SealedSpec | RefusedSpec {
  const refuse = (why: string): RefusedSpec => ({
    kind: 'refused',
    failureCode: 'SANDBOX_DRIVER_UNAVAILABLE',
    message: `${NO_RUNTIME}, and ${why}`,
    ...decided,
  })
  if (floor !== 'none') return refuse(`ITERION_SANDBOX_FLOOR=${floor} lets nothing run without one`)
  const remedy = '--sandbox none runs it without one'
  if (mode === 'inline') return refuse(`the sandbox names its own container; ${remedy}`)
  const fileSecretsDropped = request.hasFileSecrets
  const bare = { reason: 'no-runtime', fileSecretsDropped, ...decided } as const
  if (!request.hasPolicy) return { kind: 'bare', warning: `${NO_RUNTIME}: ${RISK}`, ...bare }
  const policy = `the policy of ${request.workflowFile}`
  if (request.whyNoSeal !== undefined) {
    return refuse(`${policy} cannot hold without one: ${request.whyNoSeal}; ${remedy}`)
  }
  return { kind: 'sealed', warning: `${NO_RUNTIME}: ${SEALED_RISK} ${policy}`, ...bare }
}
