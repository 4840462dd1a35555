import { readVariable } from './read-variable.ts'
import type { HostState, SandboxBlock } from './spec.ts'

const HOST_STATES: readonly HostState[] = ['auto', 'none']

/** Who may say whether the agent's state on the host comes into the sandbox. */
export interface HostStateRequest {
  /** `--sandbox-host-state`. */
  readonly flag?: HostState | undefined
  /** `ITERION_SANDBOX_HOST_STATE`. */
  readonly env?: string | undefined
  /** `ITERION_SANDBOX_HOST_STATE_GUARD`; its one value is `none`. */
  readonly guard?: string | undefined
}

/** A floor or guard that made something else of what was asked for. */
export interface AppliedFloor {
  /** The variable and its value. */
  readonly floor: string
  /** What was asked for and does not hold, as people wrote it. */
  readonly shadowed: readonly string[]
}

/**
 * Whether host state is bound: the flag, then the variable, then the workflow; without any of them it is not, since
 * credentials are in it. The guard keeps it out whoever asks, and says whom it overruled.
 *
 * @throws {EgressError} OPTION_INVALID for a variable whose value is not known
 */
export function resolveHostState(
  { flag, env, guard }: HostStateRequest,
  {
    workflow,
    workflowFile,
  }: { readonly workflow: SandboxBlock | undefined; readonly workflowFile: string },
): { readonly hostState: HostState; readonly guard: AppliedFloor | undefined } {
  const variable = readVariable('ITERION_SANDBOX_HOST_STATE', env, HOST_STATES)
  const guarded = readVariable('ITERION_SANDBOX_HOST_STATE_GUARD', guard, ['none'])
  const voices: readonly (readonly [HostState | undefined, string])[] = [
    [flag, '--sandbox-host-state auto'],
    [variable, 'ITERION_SANDBOX_HOST_STATE=auto'],
    [workflow?.hostState, `host_state: auto of ${workflowFile}`],
  ]
  const said = voices.find(([state]) => state !== undefined)?.[0] ?? 'none'
  if (said === 'none' || guarded === undefined) return { hostState: said, guard: undefined }
  const shadowed = voices.filter(([state]) => state === 'auto').map(([, text]) => text)
  return { hostState: 'none', guard: { floor: 'ITERION_SANDBOX_HOST_STATE_GUARD=none', shadowed } }
}
