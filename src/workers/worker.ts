import { EgressError } from '../errors.ts'
import { compilePolicy } from '../policy/compile.ts'
import { createProxyAs, type EgressProxy } from '../proxy/egress-proxy.ts'
import type { Resolver } from '../proxy/resolver.ts'
import { ClientEntries } from './client-entries.ts'
import { EventBatches } from './event-batches.ts'
import { LeasedSlots } from './leased-slots.ts'
import type { FromWorker, ToWorker, WorkerSetup } from './messages.ts'
import { SlotLease } from './slot-lease.ts'

/** A worker's end of the channel to the primary, and of its own process. */
export interface WorkerHost {
  /** @param done called when the channel has taken it, or is gone */
  send(message: FromWorker, done?: () => void): void
  onMessage(listener: (message: ToWorker) => void): void
  /** Ends the process. */
  exit(code: number): void
  /** How names are looked up, from the values of `--resolve`. */
  resolverOf(resolve: readonly string[]): Resolver
}

/** What a worker has while it serves. */
interface Serving {
  readonly proxy: EgressProxy
  readonly events: EventBatches
  readonly lease: SlotLease
  readonly entries: ClientEntries
}

/** Serves for the primary, as it says. */
export function runWorker(host: WorkerHost): void {
  let serving: Serving | undefined

  const start = async (setup: WorkerSetup, leased: number) => {
    try {
      serving = createServing(host, setup, leased)
      host.send({ kind: 'ready', bound: await serving.proxy.listen(setup.listen) })
    } catch (error) {
      const { code, message } = asFailure(error)
      host.send({ kind: 'failed', code, message }, () => host.exit(1))
    }
  }
  const drain = async () => {
    await serving?.proxy.close()
    await serving?.events.flush()
    host.exit(0)
  }
  host.onMessage((message) => {
    switch (message.kind) {
      case 'start':
        void start(message.setup, message.leased)
        break
      case 'lease':
        serving?.lease.add(message.slots)
        break
      case 'recall':
        host.send({ kind: 'return', round: message.round, slots: serving?.lease.giveBack() ?? 0 })
        break
      case 'entered':
        serving?.entries.answer(message.id, message.own)
        break
      case 'report':
        if (serving) host.send({ kind: 'stats', id: message.id, stats: serving.proxy.stats() })
        break
      case 'drain':
        void drain()
        break
    }
  })
  host.send({ kind: 'up' })
}

function createServing(host: WorkerHost, setup: WorkerSetup, leased: number): Serving {
  const { pseudonym, mostTunnels, token, relay, limits, audit, insecureNoAuth } = setup
  const policy = compilePolicy(setup.parts)
  if (policy.digest !== setup.digest) throw new TypeError('the policy is not the one that was sent')
  const events = new EventBatches((batch, done) =>
    host.send({ kind: 'events', events: batch }, done),
  )
  const lease = new SlotLease(leased, (slots) => host.send({ kind: 'ask', slots }))
  const entries = new ClientEntries({
    enter: (id, client) => host.send({ kind: 'enter', id, client }),
    leave: (client) => host.send({ kind: 'leave', client }),
  })
  const proxy = createProxyAs(
    { pseudonym, slots: new LeasedSlots({ lease, entries, mostTunnels }) },
    {
      policy,
      resolver: host.resolverOf(setup.resolve),
      limits,
      audit,
      insecureNoAuth,
      ...(relay && { relay }),
      ...(token !== undefined && { token }),
      ...(setup.hasLog && {
        onEvent(event) {
          // The policy is the same in all workers, and the primary records it once.
          if (event.type !== 'policy_loaded') events.add(event)
        },
      }),
    },
  )
  return { proxy, events, lease, entries }
}

function asFailure(error: unknown): Pick<EgressError, 'code' | 'message'> {
  if (error instanceof EgressError) return error
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error)
  return { code: 'INTERNAL', message }
}
