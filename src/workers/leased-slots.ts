import type { Socket } from 'node:net'
import type { Limits } from '../proxy/limits.ts'
import {
  addressOf,
  allAreTaken,
  clientIsFull,
  type NoSlot,
  type SlotKeeper,
  Slots,
} from '../proxy/slots.ts'
import type { ClientEntries } from './client-entries.ts'
import type { SlotLease } from './slot-lease.ts'

const CLAIM = Symbol('claim')

type Holder = Socket & { [CLAIM]?: Claim | undefined }

/** What a connection has of the slots of all workers. */
interface Claim {
  isLeased: boolean
  /** The address it is counted by. */
  client: string | undefined
  /** True once it is freed: what comes then goes back. */
  isOver: boolean
}

interface LeasedSlotsOptions {
  readonly lease: SlotLease
  readonly entries: ClientEntries
  /** The tunnels that all workers may have together, for the answer. */
  readonly mostTunnels: number
}

const SILENCE: NoSlot = { detail: 'the tunnels cannot be counted at the moment', status: 503 }

/**
 * The slots of a worker. Its own limits go first: what its descriptors bear, and what a client has here alone. A slot that
 * is leased is taken at once; for another one, and for every tunnel where clients are counted, the primary is asked.
 */
export class LeasedSlots implements SlotKeeper {
  readonly #own = new Slots()
  readonly #lease: SlotLease
  readonly #entries: ClientEntries
  readonly #mostTunnels: number

  constructor({ lease, entries, mostTunnels }: LeasedSlotsOptions) {
    this.#lease = lease
    this.#entries = entries
    this.#mostTunnels = mostTunnels
  }

  take(client: Holder, limits: Limits): NoSlot | undefined | Promise<NoSlot | undefined> {
    const none = this.#own.take(client, limits)
    if (none) return none
    const isCounted = limits.maxTunnelsPerClient > 0
    const isLeased = !isCounted && this.#lease.tryTake()
    const claim: Claim = { isLeased, client: undefined, isOver: false }
    client[CLAIM] = claim
    return isLeased ? undefined : this.#ask(client, claim, isCounted)
  }

  free(client: Holder): void {
    this.#own.free(client)
    const claim = client[CLAIM]
    if (claim === undefined) return
    client[CLAIM] = undefined
    claim.isOver = true
    this.#giveUp(claim)
  }

  async #ask(client: Holder, claim: Claim, isCounted: boolean): Promise<NoSlot | undefined> {
    const none =
      (isCounted && (await this.#enter(client, claim))) || (await this.#waitForSlot(claim))
    if (claim.isOver) this.#giveUp(claim)
    else if (none) this.free(client)
    return none || undefined
  }

  async #enter(client: Holder, claim: Claim): Promise<NoSlot | undefined> {
    const address = addressOf(client)
    const entry = await this.#entries.enter(address)
    if (entry === 'silence') return SILENCE
    if (entry !== 'entered') return clientIsFull(entry.own)
    claim.client = address
    return undefined
  }

  async #waitForSlot(claim: Claim): Promise<NoSlot | undefined> {
    if (claim.isOver) return undefined
    const waited = await this.#lease.take()
    if (waited === 'silence') return SILENCE
    if (waited === 'none') return allAreTaken(this.#mostTunnels)
    claim.isLeased = true
    return undefined
  }

  #giveUp(claim: Claim): void {
    if (claim.isLeased) this.#lease.free()
    if (claim.client !== undefined) this.#entries.leave(claim.client)
    claim.isLeased = false
    claim.client = undefined
  }
}
