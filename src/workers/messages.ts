import type { ErrorCode } from '../errors.ts'
import type { EgressEvent } from '../events/event.ts'
import type { PolicyParts } from '../policy/compile.ts'
import type { EgressProxyStats, ListenAddress } from '../proxy/egress-proxy.ts'
import type { GivenLimits } from '../proxy/limits.ts'
import type { RelayKind } from '../proxy/sockets.ts'

// What the primary and its workers say to each other. A channel keeps its order, and the leases rely on it.

/** All that a worker serves by. It reads no file, no argument and no variable. */
export interface WorkerSetup {
  readonly listen: ListenAddress
  /** The policy as it was read, to be compiled again. */
  readonly parts: PolicyParts
  /** What the compiled policy's digest has to be. */
  readonly digest: string
  readonly pseudonym: string
  readonly token: string | undefined
  readonly insecureNoAuth: boolean
  readonly limits: GivenLimits
  /** The tunnels that all workers may have together; 0 is as many as their processes bear. */
  readonly mostTunnels: number
  /** The values of `--resolve`. */
  readonly resolve: readonly string[]
  readonly audit: boolean
  readonly relay: RelayKind | undefined
  /** False if nobody writes events down. */
  readonly hasLog: boolean
}

/** What the primary says. */
export type ToWorker =
  /** The answer to `up`. `leased`: the slots that the worker may use without asking. */
  | { readonly kind: 'start'; readonly setup: WorkerSetup; readonly leased: number }
  /** The answer to `ask`: so many more slots, fewer than asked for if there are no more. */
  | { readonly kind: 'lease'; readonly slots: number }
  /** Asks for the slots that are not in use. */
  | { readonly kind: 'recall'; readonly round: number }
  /** The answer to `enter`. `own`: the client has so many tunnels and may have no more. */
  | { readonly kind: 'entered'; readonly id: number; readonly own: number | undefined }
  | { readonly kind: 'report'; readonly id: number }
  /** Asks to drain, then to end. */
  | { readonly kind: 'drain' }

/** What a worker says. */
export type FromWorker =
  /** It listens to what is said; before that, words are lost. */
  | { readonly kind: 'up' }
  | { readonly kind: 'ready'; readonly bound: ListenAddress }
  /** It cannot start. */
  | { readonly kind: 'failed'; readonly code: ErrorCode; readonly message: string }
  | { readonly kind: 'events'; readonly events: readonly EgressEvent[] }
  /** Asks for slots; there is one such question at a time. */
  | { readonly kind: 'ask'; readonly slots: number }
  /** The answer to `recall`. */
  | { readonly kind: 'return'; readonly round: number; readonly slots: number }
  /** One more tunnel of a client address, if it may have one. */
  | { readonly kind: 'enter'; readonly id: number; readonly client: string }
  /** One that has entered is over. */
  | { readonly kind: 'leave'; readonly client: string }
  | { readonly kind: 'stats'; readonly id: number; readonly stats: EgressProxyStats }
