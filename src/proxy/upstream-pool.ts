import { Agent, type AgentOptions, type ClientRequest, type ClientRequestArgs } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Socket } from 'node:net'
import type { Policy } from '../policy/policy.ts'
import { formatTarget } from '../policy/target.ts'
import type { Admitted, ProxyCore } from './core.ts'
import type { DialResult, DialWaiter } from './dial.ts'
import { spareConnections } from './limits.ts'
import { keepAlive } from './sockets.ts'

/** How long an upstream connection may wait for its next request, in milliseconds. */
const IDLE_MS = 4_000

type FailedDial = Extract<DialResult, { kind: 'failed' }>

/** A dial that failed, as an error that a request can be ended with. */
export class DialError extends Error {
  override readonly name = 'DialError'
  readonly failed: FailedDial

  constructor(failed: FailedDial) {
    super(failed.detail)
    this.failed = failed
  }
}

/** What a request gives its agent besides what Node knows. */
export interface PooledRequestArgs extends ClientRequestArgs {
  readonly admitted: Admitted
  readonly dialWaiter: DialWaiter
  /** Of TLS, which is not spoken to upstreams: Node would work one out for every request. */
  readonly servername: ''
}

type OnCreate = (error: Error | null, stream: Duplex) => void

/** Keeps upstream connections of one policy generation, by host and port; each one was dialled through vetting. */
export class VettedAgent extends Agent {
  readonly #core: ProxyCore
  readonly #generation: number
  readonly #policy: Policy
  readonly #maxIdle: number
  #ready: Socket | undefined

  /** `ready` is a connection that is open already; it serves the first request. */
  constructor(core: ProxyCore, ready?: Socket) {
    const options: AgentOptions = {
      keepAlive: true,
      timeout: IDLE_MS,
      scheduling: 'lifo',
    }
    super(options)
    this.#core = core
    this.#generation = core.generation
    this.#policy = core.policy
    // A kept connection was vetted when it was made: it may not outlive the rule that opened its address.
    const hasExpiry = core.policy.rules.some(
      (rule) => rule.until !== undefined && (rule.private || rule.pattern.kind === 'ip'),
    )
    this.#maxIdle = hasExpiry ? 0 : spareConnections()
    this.#ready = ready
  }

  get generation(): number {
    return this.#generation
  }

  /** Closes the connections that no request uses; the others close when theirs has ended. */
  destroyFree(): void {
    for (const sockets of Object.values(this.freeSockets)) {
      for (const socket of sockets ?? []) socket.destroy()
    }
    this.maxFreeSockets = 0
  }

  /** Closes the unused connections to one upstream: when one of them turned out to be dead, the others are as old. */
  discardFree(admitted: Admitted): void {
    for (const socket of this.freeSockets[this.#nameOf(admitted)] ?? []) socket.destroy()
  }

  override destroy(): void {
    super.destroy()
    this.#ready?.destroy()
  }

  override getName(options: PooledRequestArgs): string {
    return this.#nameOf(options.admitted)
  }

  #nameOf({ target }: Admitted): string {
    return `${formatTarget(target)} ${this.#generation}`
  }

  /** An upstream that speaks without being asked would be taken for the answer to the next request. */
  override keepSocketAlive(socket: Duplex): boolean {
    let idle = 0
    for (const name in this.freeSockets) idle += this.freeSockets[name]?.length ?? 0
    if (idle >= this.#maxIdle) return false
    socket.once('data', destroyThis)
    // Node answers whether the socket is kept, and closes it on false; its type has no answer.
    return super.keepSocketAlive(socket) as unknown as boolean
  }

  override reuseSocket(socket: Duplex, request: ClientRequest): void {
    socket.removeListener('data', destroyThis)
    super.reuseSocket(socket, request)
  }

  override createConnection(
    options: ClientRequestArgs,
    callback?: OnCreate,
  ): Duplex | null | undefined {
    const ready = this.#ready
    this.#ready = undefined
    if (ready && !ready.destroyed) {
      // It was paused by hand, and Node's client only starts to read a socket that was not.
      process.nextTick(() => ready.resume())
      return ready
    }
    const { admitted, dialWaiter } = options as PooledRequestArgs
    const { target, decision } = admitted
    const request = {
      target,
      decision,
      policy: this.#policy,
      generation: this.#generation,
      waiter: dialWaiter,
    }
    // Node takes an error without a socket; its type does not say so.
    const fail = (error: Error) => callback?.(error, undefined as never)
    this.#core.dialer.dial(request).then(
      (result) => {
        if (result.kind === 'failed') {
          fail(new DialError(result))
          return
        }
        keepAlive(result.socket)
        callback?.(null, result.socket)
      },
      (error: unknown) => fail(error instanceof Error ? error : new Error(String(error))),
    )
    return undefined
  }
}

function destroyThis(this: Duplex): void {
  this.destroy()
}
