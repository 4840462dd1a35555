import type { Socket } from 'node:net'
import { EgressError } from '../errors.ts'
import { formatIp } from '../policy/address.ts'
import type { Decision, DenyReason } from '../policy/decide.ts'
import type { Policy } from '../policy/policy.ts'
import type { Target } from '../policy/target.ts'
import { type LocalAddresses, vetAddress, type VetReason } from '../policy/vet.ts'
import type { Limits } from './limits.ts'
import { type Connect, ignoreError } from './sockets.ts'
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

/** Who waits for a dial. An `AbortController` does the same, at a tenth of what a whole tunnel costs. */
export class DialWaiter {
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
  async function dial(request: DialRequest): Promise<DialResult> {
    const { target, policy, decision, generation, waiter } = request
    const { resolveTimeoutMs, dialTimeoutMs } = limits()
    let addresses: readonly ResolvedAddress[]
    try {
      addresses =
        target.host.kind === 'ip'
          ? [{ ip: target.host.ip, port: target.port, given: false }]
          : (lookups.known(target.host.name, target.port, generation) ??
            (await lookups.resolve(target.host.name, target.port, generation, resolveTimeoutMs)))
    } catch (error) {
      if (!(error instanceof EgressError)) throw error
      const timedOut = error.code === 'RESOLVE_TIMEOUT'
      return { kind: 'failed', reason: 'unresolvable', detail: error.message, timedOut }
    }
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
    if (refusal && vetted.length === 0) return refusal
    return raceToConnect(interleaveFamilies(vetted), { connect, timeoutMs: dialTimeoutMs, waiter })
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
function raceToConnect(
  addresses: readonly ResolvedAddress[],
  { connect, timeoutMs, waiter }: RaceParts,
): Promise<DialResult> {
  return new Promise((resolve) => {
    const attempts = new Set<Socket>()
    let next = 0
    let lastError = 'no address'
    let delay: NodeJS.Timeout | undefined
    const deadline =
      timeoutMs > 0
        ? setTimeout(() => fail(`no connection within ${timeoutMs} ms`, true), timeoutMs)
        : undefined
    let isSettled = false
    waiter.whenGone(() => fail('the client ended its side before there was a connection', false))
    if (!isSettled) tryNext()

    function settle(result: DialResult, winner?: Socket) {
      isSettled = true
      clearTimeout(delay)
      clearTimeout(deadline)
      waiter.whenGone(undefined)
      for (const socket of attempts) if (socket !== winner) socket.destroy()
      attempts.clear()
      next = addresses.length
      resolve(result)
    }

    function fail(detail: string, timedOut: boolean) {
      const tried = addresses[Math.min(next, addresses.length) - 1] ?? addresses[0]
      const address = tried && formatIp(tried.ip)
      settle({
        kind: 'failed',
        reason: 'dial',
        detail,
        timedOut,
        ...(address !== undefined && { address }),
      })
    }

    function tryNext() {
      clearTimeout(delay)
      const address = addresses[next++]
      if (address === undefined) {
        if (attempts.size === 0) fail(lastError, false)
        return
      }
      const host = formatIp(address.ip)
      const socket = connect(host, address.port)
      attempts.add(socket)
      const onConnect = () => {
        socket.removeListener('connect', onConnect)
        socket.removeListener('error', onError)
        // The next owner attaches its own listener; an error in between must not be an uncaught one.
        socket.on('error', ignoreError)
        settle({ kind: 'connected', socket, address: host }, socket)
      }
      const onError = (error: NodeJS.ErrnoException) => {
        lastError = `connecting failed (${error.code ?? error.message})`
        attempts.delete(socket)
        tryNext()
      }
      socket.on('connect', onConnect)
      socket.on('error', onError)
      if (next < addresses.length) delay = setTimeout(tryNext, ATTEMPT_DELAY_MS)
    }
  })
}
