import type { Server } from 'node:net'
import type { ContainerRuntime } from './container-runtime.ts'

/** The doors there are. `advisory` is none: the network is open and only variables point to the proxy. */
export type DoorKind = 'netns' | 'sidecar' | 'advisory'

/** What is asked for; `auto` is the first of netns and sidecar that works here. */
export type DoorChoice = DoorKind | 'auto'

/** Where the proxy listens inside the sandbox. */
export const DOOR_HOST = '127.0.0.1'
export const DOOR_PORT = 3128

/** What a door is placed into. */
export interface DoorSite {
  readonly runtime: ContainerRuntime
  /** The full id of the workload's container, which runs already and has no network. */
  readonly containerId: string
  /** A short folder of this run alone, mode 0700; a door may put sockets there. */
  readonly directory: string
  /** The caller. */
  readonly user: { readonly uid: number; readonly gid: number }
  /** Labels for containers that the door starts, so that the reaper knows whose they are. */
  readonly labels: Readonly<Record<string, string>>
  /** The image with the relay of the sidecar door. */
  readonly sidecarImage: string
  /** Ends the placing. */
  readonly signal: AbortSignal
}

/** A placed door. */
export interface Door {
  readonly kind: Exclude<DoorKind, 'advisory'>
  /** Emits the connections of the sandbox; to be attached to the proxy. Their local address is that inside. */
  readonly servers: readonly Server[]
  /** The containers that belong to it, to be removed before the workload's. */
  readonly containers: readonly string[]
  /**
   * Proves from inside the namespace that this is the only way out: nothing but `lo`, no route, the door answers, a
   * connect that leads outside fails at once. To be called when the proxy serves the door.
   *
   * @throws {EgressError} SANDBOX_DOOR_FAILED
   */
  probe(): Promise<void>
  /** Resolves when it ends before it is closed; undefined: it ends with the workload's container alone. */
  readonly lost?: Promise<void>
  /** Closes it. Works at any moment, also twice. */
  close(): Promise<void>
}
