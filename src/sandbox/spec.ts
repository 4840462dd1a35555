import type { PolicySource } from '../policy/parse.ts'
import type { Backend } from './backend.ts'

/** Whether a run gets a container: none, `auto` (the image of the tier that asked), or the block's own. */
export type SandboxMode = 'none' | 'auto' | 'inline'

/** Modes from weak to strong. */
export const MODES: readonly SandboxMode[] = ['none', 'auto', 'inline']

/** Whether the agent's own state on the host is bound into the sandbox. */
export type HostState = 'auto' | 'none'

/** How an image is built. */
export interface BuildSpec {
  readonly dockerfile: string
  readonly context: string
  readonly args: Readonly<Record<string, string>>
  /** The stage to build; undefined: the last one. */
  readonly target?: string | undefined
}

/** A folder or file of the host in the sandbox. */
export interface MountSpec {
  readonly source: string
  readonly target: string
  readonly readOnly: boolean
}

/** `sandbox:` of a workflow as written. The short forms have only a mode. */
export interface SandboxBlock {
  readonly mode: SandboxMode | undefined
  readonly image: string | undefined
  readonly build: BuildSpec | undefined
  /** Who runs in it; undefined: the caller's UID and GID. */
  readonly user: string | undefined
  readonly workspaceFolder: string | undefined
  readonly hostState: HostState | undefined
  readonly postCreate: string | undefined
  readonly env: Readonly<Record<string, string>>
  readonly mounts: readonly MountSpec[]
  /** Undefined: no `network:` block; `open`: said so. */
  readonly network: 'open' | PolicySource | undefined
}

/** A secret of a workflow. */
export interface SecretSpec {
  readonly name: string
  readonly as: 'env' | 'file'
  readonly from: { readonly env: string } | { readonly file: string }
}

/** One step of a workflow. */
export interface NodeSpec {
  readonly id: string
  readonly backend: Backend
  /** A line for `sh -c` or a task for an agent, or the words of a command. */
  readonly command: string | readonly string[]
  /** Who takes the task, in order, if the one before failed. */
  readonly fallback: readonly Backend[]
}

/** A workflow file as written, checked. */
export interface Workflow {
  /** The path as given, for messages. */
  readonly file: string
  readonly name: string
  readonly sandbox: SandboxBlock | undefined
  readonly attachments: readonly string[]
  readonly secrets: readonly SecretSpec[]
  readonly nodes: readonly NodeSpec[]
  /** All that the file says, as it is said: what a digest of it is made of. Comments and layout do not count. */
  readonly said: unknown
}

/** A block that says nothing. */
export const EMPTY_BLOCK: SandboxBlock = {
  mode: undefined,
  image: undefined,
  build: undefined,
  user: undefined,
  workspaceFolder: undefined,
  hostState: undefined,
  postCreate: undefined,
  env: {},
  mounts: [],
  network: undefined,
}
