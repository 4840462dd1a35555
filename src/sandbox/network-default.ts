import type { PolicySource } from '../policy/parse.ts'
import type { SandboxBlock, SandboxMode } from './spec.ts'

/** The preset of a sandbox that a repository chose. */
const REPOSITORY_PRESET = 'iterion-default'

/** The network of a run: open, or what a policy lets through. */
export type RunNetwork = { readonly kind: 'open' } | PolicyNetwork

/** A network behind a policy. */
export interface PolicyNetwork {
  readonly kind: 'policy'
  /** What the workflow says; undefined if it says nothing. */
  readonly source: PolicySource | undefined
  /** Presets whose rules come before those of `source`. */
  readonly presets: readonly string[]
  /** Set if nobody chose a preset: the one that was taken, and the file of the repository that is the reason. */
  readonly defaulted?: { readonly preset: string; readonly source: string }
}

interface NetworkRequest {
  readonly block: SandboxBlock | undefined
  /** The mode of the run, as resolved. */
  readonly mode: SandboxMode
  /** The file of the repository that defines the sandbox of the run, if one does. */
  readonly repository?: { readonly file: string } | undefined
}

/** True if a workflow itself has a policy, be it an empty one: a run without a sandbox would throw it away. */
export function declaresPolicy(block: SandboxBlock | undefined): boolean {
  return block?.network !== undefined && block.network !== 'open'
}

/**
 * Who chose the network:
 *
 * 1. `network: open` is open, whoever chose the sandbox;
 * 2. a repository's sandbox without a base, also where a floor raised the mode, gets `iterion-default` below the
 *    workflow's rules. A base is a preset, or the mode denylist;
 * 3. else no block is open, and a block is what it says: an empty one allows nothing.
 */
export function resolveNetwork({ block, mode, repository }: NetworkRequest): RunNetwork {
  const said = block?.network
  if (said === 'open') return { kind: 'open' }
  if (mode !== 'none' && repository !== undefined && !hasBase(said)) {
    return {
      kind: 'policy',
      source: said,
      presets: [REPOSITORY_PRESET],
      defaulted: { preset: REPOSITORY_PRESET, source: repository.file },
    }
  }
  return said === undefined ? { kind: 'open' } : { kind: 'policy', source: said, presets: [] }
}

function hasBase(source: PolicySource | undefined): boolean {
  return source !== undefined && (source.presets.length > 0 || source.mode !== 'allowlist')
}
