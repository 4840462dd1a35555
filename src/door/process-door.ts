import type { EgressEvent } from '../events/event.ts'
import type { Policy } from '../policy/policy.ts'
import { createEgressProxy, type EgressProxy } from '../proxy/egress-proxy.ts'
import type { Resolver } from '../proxy/resolver.ts'
import { planDoor } from './door-plan.ts'
import type { ProcessSeal, ProcessSealing } from './process-seal.ts'
import { serveDoor, steady } from './serve-door.ts'
import { SyntheticNames } from './synthetic-names.ts'

/** What sealed processes are served by. */
export interface ProcessDoorRequest {
  readonly policy: Policy
  readonly resolver: Resolver
  /** True if what is allowed is told too. */
  readonly audit: boolean
  readonly emit: (event: EgressEvent) => void
  /** Milliseconds since 1970. */
  readonly now: () => number
}

/** The door of one sealed process, or of several one after another: they share a proxy, and what names stand for. */
export interface ProcessDoor {
  /**
   * Opens the door in a seal, serves it, and has it proven. To be called once for each.
   *
   * @throws {EgressError} SANDBOX_DOOR_FAILED with what is missing and how to turn it on, or PROGRAM_MISSING
   */
  open(sealing: ProcessSealing): Promise<ProcessSeal>
  /** Closes the proxy, with every connection. */
  close(): Promise<void>
}

/** Makes the door of sealed processes. The proxy comes with the first of them, while its namespaces come to be. */
export function processDoor(request: ProcessDoorRequest): ProcessDoor {
  const { policy, resolver, audit, emit } = request
  const plan = planDoor(policy)
  const now = steady(request.now)
  const names = new SyntheticNames(policy.door.syntheticRange, now)
  let proxy: EgressProxy | undefined
  const create = () =>
    createEgressProxy({ policy, resolver, audit, onEvent: emit, now: request.now, names })
  return {
    async open(sealing) {
      const opening = sealing.open(plan)
      // It is waited for below; until then its failure is nobody's.
      opening.catch(() => undefined)
      proxy ??= create()
      const seal = await opening
      try {
        serveDoor(seal, proxy, { plan, names, now })
        await seal.probe()
        return seal
      } catch (error) {
        seal.close()
        throw error
      }
    },
    async close() {
      await proxy?.close({ drainTimeoutMs: 0 })
    },
  }
}
