import type { Socket } from 'node:net'
import { EgressError } from '../errors.ts'
import { formatIp } from '../policy/address.ts'
import type { Decision, DenyReason } from '../policy/decide.ts'
import type { Policy } from '../policy/policy.ts'
import type { Target } from '../policy/target.ts'
import { type LocalAddresses, vetAddress, type VetReason } from '../policy/vet.ts'
import type { Limits } from './limits.ts'
import { giveTo, type SocketOwner } from './socket-owner.ts'
import type { Connect } from './sockets.ts'
import type { LookupCache, ResolvedAddress } from './resolver.ts'

/** How long an attempt has before the next address is tried beside it (RFC 8305 5), in milliseconds. */
const ATTEMPT_DELAY_MS = 300

/** All that a dial needs to know. */
export interface DialRequest {
  readonly target: Target
  readonly decision: Decision
  readonly policy: Policy
  readonly generation: number
  /** Cancelled when nobody waits for the connection any more. */
  readonly waiter: DialWaiter
}

/**
 * Who waits for a dial. An `AbortController` does the same, at a tenth of what a whole tunnel costs. The owner of a client's
 * socket leaves as soon as the client ends its side.
 */
export class DialWaiter implements SocketOwner {
  #isGone = false
  #onGone: (() => void) | undefined

  /** Says that nobody waits any more. */
  leave(): void {
    this.#isGone = true
    this.#onGone?.()
  }

  /** Calls a function when nobody waits any more, also if that is so already; the last one that was given. */
  whenGone(onGone: (() => void) | undefined): void {
    this.#onGone = onGone
    if (this.#isGone) onGone?.()
  }

  onEnd(): void {
    this.leave()
  }

  onClose(): void {
    this.leave()
  }
}

/** What a dial came to. */
export type DialResult =
  | { readonly kind: 'connected'; readonly socket: Socket; readonly address: string }
  | {
      readonly kind: 'failed'
      readonly reason: Extract<DenyReason, 'unresolvable' | 'dial'> | VetReason
      readonly detail: string
      readonly timedOut: boolean
      readonly address?: string
    }

/** Connects to targets: the one way that a byte leaves. */
export interface Dialer {
  dial(request: DialRequest): Promise<DialResult>
}

interface DialerParts {
  readonly lookups: LookupCache
  readonly local: LocalAddresses
  readonly connect: Connect
  readonly limits: () => Limits
  readonly now: () => number
}

/** Makes the dialer of a proxy. */
export function createDialer(parts: DialerParts): Dialer {
  const { lookups, local, connect, limits, now } = parts
  return { dial }

  /** Resolve, vet, connect: what is connected to is an address that was vetted, never a name. */
  function dial(request: DialRequest): Promise<DialResult> {
    const { target, generation } = request
    const { host, port } = target
    if (host.kind === 'ip') return connectTo([{ ip: host.ip, port, given: false }], request)
    const known = lookups.known(host.name, port, generation)
    return known ? connectTo(known, request) : lookUp(host.name, request)
  }

  async function lookUp(name: string, request: DialRequest): Promise<DialResult> {
    const { target, generation } = request
    let addresses: readonly ResolvedAddress[]
    try {
      const { resolveTimeoutMs } = limits()
      addresses = await lookups.resolve(name, target.port, generation, resolveTimeoutMs)
    } catch (error) {
      if (!(error instanceof EgressError)) throw error
      const timedOut = error.code === 'RESOLVE_TIMEOUT'
      return { kind: 'failed', reason: 'unresolvable', detail: error.message, timedOut }
    }
    return connectTo(addresses, request)
  }

  function connectTo(
    addresses: readonly ResolvedAddress[],
    { policy, decision, waiter }: DialRequest,
  ): Promise<DialResult> {
    const vetted: ResolvedAddress[] = []
    let refusal: DialResult | undefined
    for (const one of addresses) {
      const { ip, port, given } = one
      const reason = vetAddress(policy, local, { ip, port, given, decision, nowMs: now() })
      if (reason === undefined) vetted.push(one)
      else {
        const address = formatIp(ip)
        const detail = `${vetSentence(reason)} (${address})`
        refusal ??= { kind: 'failed', reason, detail, timedOut: false, address }
      }
    }
    if (refusal && vetted.length === 0) return Promise.resolve(refusal)
    const { dialTimeoutMs: timeoutMs } = limits()
    return new Race(interleaveFamilies(vetted), { connect, timeoutMs, waiter }).run()
  }
}

/** Why vetting turned an address down, in words. */
function vetSentence(reason: VetReason): string {
  switch (reason) {
    case 'loop':
      return 'the address is the proxy itself'
    case 'metadata-address':
      return 'the address is a cloud metadata service'
    case 'special-address':
      return 'the address is not public'
    case 'address-excluded':
      return 'the address is excluded'
  }
}

/** RFC 8305 4: IPv6 first, then in turn, each family in the resolver's order. */
function interleaveFamilies(addresses: readonly ResolvedAddress[]): readonly ResolvedAddress[] {
  if (addresses.length < 2) return addresses
  const six = addresses.filter(({ ip }) => ip.family === 6)
  const four = addresses.filter(({ ip }) => ip.family === 4)
  const longest = Math.max(six.length, four.length)
  return Array.from({ length: longest }, (_, i) => [six[i], four[i]])
    .flat()
    .filter((one) => one !== undefined)
}

interface RaceParts {
  readonly connect: Connect
  /** 0 is for ever. */
  readonly timeoutMs: number
  readonly waiter: DialWaiter
}

/** Tries the addresses in order, the next one as soon as one fails or has taken its time; the first to connect wins. */
class Race implements SocketOwner {
  readonly #addresses: readonly ResolvedAddress[]
  readonly #parts: RaceParts
  /** Those under way, each at the place of its address. */
  readonly #attempts: (Socket | undefined)[] = []
  #lastError = 'no address'
  #delay: NodeJS.Timeout | undefined
  #deadline: NodeJS.Timeout | undefined
  #resolve: ((result: DialResult) => void) | undefined

  constructor(addresses: readonly ResolvedAddress[], parts: RaceParts) {
    this.#addresses = addresses
    this.#parts = parts
  }

  run(): Promise<DialResult> {
    return new Promise((resolve) => {
      this.#resolve = resolve
      const { timeoutMs, waiter } = this.#parts
      waiter.whenGone(() =>
        this.#fail('the client ended its side before there was a connection', false),
      )
      if (this.#isSettled) return
      if (timeoutMs > 0) {
        const giveUp = () => this.#fail(`no connection within ${timeoutMs} ms`, true)
        this.#deadline = setTimeout(giveUp, timeoutMs)
      }
      this.#tryNext()
    })
  }

  onConnect(socket: Socket): void {
    const at = this.#attempts.indexOf(socket)
    this.#attempts[at] = undefined
    // The next owner takes it over; an error in between must not be an uncaught one.
    giveTo(socket, undefined)
    this.#settle({ kind: 'connected', socket, address: this.#addressAt(at) ?? '' })
  }

  onError(socket: Socket, error: NodeJS.ErrnoException): void {
    this.#lastError = `connecting failed (${error.code ?? error.message})`
    this.#attempts[this.#attempts.indexOf(socket)] = undefined
    this.#tryNext()
  }

  get #isSettled(): boolean {
    return this.#resolve === undefined
  }

  #tryNext(): void {
    clearTimeout(this.#delay)
    const next = this.#attempts.length
    const address = this.#addresses[next]
    if (address === undefined) {
      if (this.#attempts.every((one) => one === undefined)) this.#fail(this.#lastError, false)
      return
    }
    const { connect } = this.#parts
    const socket = connect(formatIp(address.ip), address.port)
    this.#attempts.push(socket)
    giveTo(socket, this)
    if (next + 1 < this.#addresses.length) {
      this.#delay = setTimeout(() => this.#tryNext(), ATTEMPT_DELAY_MS)
    }
  }

  #fail(detail: string, timedOut: boolean): void {
    const address = this.#addressAt(Math.max(0, this.#attempts.length - 1))
    this.#settle({
      kind: 'failed',
      reason: 'dial',
      detail,
      timedOut,
      ...(address !== undefined && { address }),
    })
  }

  #addressAt(place: number): string | undefined {
    const address = this.#addresses[place]
    return address && formatIp(address.ip)
  }

  #settle(result: DialResult): void {
    clearTimeout(this.#delay)
    clearTimeout(this.#deadline)
    this.#parts.waiter.whenGone(undefined)
    for (const socket of this.#attempts) {
      if (socket === undefined) continue
      giveTo(socket, undefined)
      socket.destroy()
    }
    this.#resolve?.(result)
    this.#resolve = undefined
  }
}
