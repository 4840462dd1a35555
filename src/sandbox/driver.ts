import type { ChildProcess, StdioOptions } from 'node:child_process'
import type { BindMount } from './mounts.ts'

/** A file system in memory inside the sandbox. */
export interface TmpfsMount {
  readonly target: string
  /** Permission bits, in octal as written: `0700`. */
  readonly mode: string
  /** Who owns it; undefined: root. */
  readonly owner: { readonly uid: number; readonly gid: number } | undefined
  /** In bytes. */
  readonly sizeBytes: number
  /** True if programs may be started from it. */
  readonly executable: boolean
}

/** The network of a container: none at all, or the engine's default bridge. */
export type ContainerNetwork = 'none' | 'bridge'

/** One container, before it exists. */
export interface ContainerSpec {
  readonly name: string
  /** The content id of the image, so that what was looked at is what runs. */
  readonly image: string
  /** `UID:GID`, a name, or empty for the image's own user. */
  readonly user: string
  readonly workdir: string
  readonly labels: Readonly<Record<string, string>>
  readonly network: ContainerNetwork
  /** In the order in which they are laid over one another. */
  readonly mounts: readonly BindMount[]
  /** Volumes without a name, which go with the container: what is asked for. */
  readonly volumes: readonly { readonly target: string }[]
  /** The same: what the image has. */
  readonly imageVolumes: readonly string[]
  readonly tmpfs: readonly TmpfsMount[]
  /** The file that the engine writes the id into; it must not exist. */
  readonly idFile: string
  /** The seccomp profile, as a file. */
  readonly seccompFile: string
  /** Variables of the image that are taken away. */
  readonly unsetEnv: readonly string[]
  /** What it calls itself; undefined: what the engine says. */
  readonly hostname: string | undefined
  /** More words for the engine, each checked. */
  readonly engineArgs: readonly string[]
  /** How many processes and threads; 0: no limit. */
  readonly pidsLimit: number
  /** In bytes; 0: no limit. */
  readonly memoryBytes: number
}

/** One program inside a container. */
export interface ExecSpec {
  readonly container: string
  readonly user: string
  readonly workdir: string
  /** A file of `NAME=VALUE` lines, read once when the program starts. */
  readonly envFile: string | undefined
  readonly interactive: boolean
  readonly tty: boolean
  readonly command: readonly string[]
}

/** What an engine knows about an image. */
export interface ImageInfo {
  readonly id: string
  /** The user that it names; empty if none. */
  readonly user: string
  /** Its environment. */
  readonly env: Readonly<Record<string, string>>
  /** Its folders that are volumes. */
  readonly volumes: readonly string[]
}

/** A container that runs. It ends when its process does, and that ends with this program, however this program ends. */
export interface RunningContainer {
  readonly id: string
  /** Resolves when the container has ended, for whatever reason. */
  readonly ended: Promise<void>
  /** Ends it by closing the pipe that it lives on, and removes it. Answers what is still there. Works twice. */
  stop(): Promise<readonly string[]>
}

/**
 * What a run needs of a container engine. Every method can be called again after it failed; none leaves something
 * behind that `remove` and the reaper would not find by its labels.
 */
export interface Driver {
  /** Looks at an image that is here. @throws {EgressError} SANDBOX_ENGINE_UNREACHABLE */
  inspectImage(image: string, signal: AbortSignal): Promise<ImageInfo | undefined>
  /** Fetches an image. @throws {EgressError} SANDBOX_IMAGE_UNAVAILABLE, SANDBOX_ENGINE_UNREACHABLE */
  pullImage(image: string, signal: AbortSignal): Promise<void>
  /** Starts a container and waits until its first process answers. @throws {EgressError} SANDBOX_SETUP_FAILED */
  start(spec: ContainerSpec, signal: AbortSignal): Promise<RunningContainer>
  /** Starts a program in a container. */
  exec(spec: ExecSpec, stdio: StdioOptions): ChildProcess
  /** Runs a program in a container to its end and answers what it printed. */
  run(
    spec: ExecSpec,
    options: {
      readonly input?: string | Buffer
      readonly signal?: AbortSignal
      readonly timeoutMs?: number
    },
  ): Promise<{
    readonly code: number | undefined
    readonly stdout: string
    readonly stderr: string
  }>
  /** The address of this machine on the bridge that a container is on. @throws {EgressError} SANDBOX_SETUP_FAILED */
  bridgeGateway(container: string, signal: AbortSignal): Promise<string>
  /** Removes containers with their anonymous volumes. Answers those that are still there. */
  remove(containers: readonly string[], timeoutMs: number): Promise<readonly string[]>
  /** All containers that carry a label, running or not, but the one of a name. */
  list(
    label: string,
    except?: string,
  ): Promise<readonly { readonly id: string; readonly labels: Readonly<Record<string, string>> }[]>
}
