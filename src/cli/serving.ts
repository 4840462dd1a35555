import type { EgressEvent } from '../events/event.ts'
import type { ComposedPolicy } from '../presets/compose.ts'
import type { ListenAddress } from '../proxy/egress-proxy.ts'
import type { GivenLimits } from '../proxy/limits.ts'
import type { ServeOptions } from './serve-options.ts'

/** What `serve` is asked for, with all that had to be read for it. */
export interface ServeRequest {
  readonly options: ServeOptions
  readonly listen: ListenAddress
  readonly composed: ComposedPolicy
  readonly token: string | undefined
  readonly limits: GivenLimits
  readonly onEvent: ((event: EgressEvent) => void) | undefined
}

/** A proxy that serves: in this process, or in workers. */
export interface Serving {
  readonly bound: ListenAddress
  /** Rejects when it cannot go on. */
  readonly lost: Promise<never>
  stats(): unknown
  close(): Promise<void>
}
