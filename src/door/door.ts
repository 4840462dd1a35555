import type { Socket as DatagramSocket } from 'node:dgram'
import type { Server } from 'node:net'
import type { ContainerRuntime } from './container-runtime.ts'
import type { DoorPlan } from './door-plan.ts'

/** The doors there are. `advisory` is none: the network is open and only variables point to the proxy. */
export type DoorKind = 'netns' | 'sidecar' | 'advisory'

/** The ports that a door takes from the sandbox's own servers where it listens on them itself. */
export function portsTakenBy({ ports }: Pick<DoorPlan, 'ports'>): number[] {
  return ports.filter((port) => port !== DOOR_PORT && port !== NAMES_PORT)
}

/** What is asked for; `auto` is the first of netns and sidecar that works here. */
export type DoorChoice = DoorKind | 'auto'

/** Where the proxy listens inside the sandbox. */
export const DOOR_HOST = '127.0.0.1'
export const DOOR_PORT = 3128

/** The port of the sandbox's resolver. */
export const NAMES_PORT = 53

/** What a door is placed into. */
export interface DoorSite {
  readonly runtime: ContainerRuntime
  /** The full id of the workload's container, which runs already and has no network. */
  readonly containerId: string
  /** A short folder of this run alone, mode 0700; a door may put sockets there. */
  readonly directory: string
  /** The caller. */
  readonly user: { readonly uid: number; readonly gid: number }
  /** What is opened inside. */
  readonly plan: DoorPlan
  /** Labels for containers that the door starts, so that the reaper knows whose they are. */
  readonly labels: Readonly<Record<string, string>>
  /** The image with the relay of the sidecar door. */
  readonly sidecarImage: string
  /** Ends the placing. */
  readonly signal: AbortSignal
}

/**
 * What the connections of a server of a door are: to the proxy's port, to the resolver's, to one port of the plan, to any of
 * them as their local address says, or datagrams for the resolver in frames.
 */
export type DoorUse = 'proxy' | 'names' | 'any' | 'framed' | number

/** A server of a door. */
export interface DoorServer {
  readonly server: Server
  readonly use: DoorUse
}

/** The sockets of a door, and what opening them takes from the sandbox. */
export interface DoorSockets {
  /** Emit the connections of the sandbox. Their local address is that inside. */
  readonly servers: readonly DoorServer[]
  /** Where the resolver is asked; undefined: in frames, by a server. */
  readonly datagrams: DatagramSocket | undefined
  /** Ports that the sandbox's own servers cannot use, because the door listens on them itself. */
  readonly taken: readonly number[]
  /** Why it does, or what else was not to be had; undefined: nothing is missing. */
  readonly missing: string | undefined
}

/** What a door that works lacks, in words; undefined: nothing. */
export function lackOf({ taken, missing }: DoorSockets): string | undefined {
  if (taken.length === 0) return missing
  return `servers of the sandbox cannot listen on ${taken.join(', ')}: ${missing}`
}

/** A placed door. */
export interface Door extends DoorSockets {
  readonly kind: Exclude<DoorKind, 'advisory'>
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
