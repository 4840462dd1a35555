import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Target } from '../policy/target.ts'
import type { Member } from './registry.ts'
import type { VettedAgent } from './upstream-pool.ts'

/** A request that was read, and what has to be answered before it. */
export interface Received {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly before: Promise<void>
}

/** Where a client connection keeps what is known about it. */
export const CLIENT = Symbol('client')

export type ClientSocket = Socket & { [CLIENT]?: Client | undefined }

/** Who knows all client connections. */
export interface ClientKeeper {
  forget(client: Client): void
}

/** What is known about a client connection. */
export interface Client extends Member {
  readonly keeper: ClientKeeper
  readonly socket: Socket
  /** Requests that are not answered yet. */
  pending: number
  /** Settles when all that was read is answered. */
  answered: Promise<void>
  /** The request that was read last. */
  latest: Received | undefined
  /** The answer that is being given. */
  current: ServerResponse | undefined
  /** How many bytes had been read when the last answer was out. */
  readBefore: number
  /** Runs until the first byte. */
  headTimer: NodeJS.Timeout | undefined
  /** True once the system asks whether the client is there. */
  isKeptAlive: boolean
  /** What it speaks to the proxy, and so what it is answered in. One that knows of none can only be reset. */
  speaks: 'http' | 'socks' | 'nothing'
  /** True once what comes is not looked at any more. */
  isGivenUp: boolean
  /** True from a CONNECT or an upgrade on. */
  isHandedOver: boolean
  /** The tunnel that the connection is, for clients that speak HTTP inside it. */
  tunnel: { readonly target: Target; agent: VettedAgent } | undefined
}

const ANSWERED = Promise.resolve()

/** What is known of a connection that was just made. */
export function newClient(socket: Socket, keeper: ClientKeeper): Client {
  return {
    place: -1,
    keeper,
    socket,
    pending: 0,
    answered: ANSWERED,
    headTimer: undefined,
    latest: undefined,
    current: undefined,
    readBefore: 0,
    isKeptAlive: false,
    speaks: 'http',
    isGivenUp: false,
    isHandedOver: false,
    tunnel: undefined,
  }
}

/** True if nothing of a request has come since the last answer. */
export function isIdle(client: Client): boolean {
  const { socket, pending, isHandedOver, readBefore } = client
  return pending === 0 && !isHandedOver && socket.bytesRead === readBefore
}
