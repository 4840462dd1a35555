import type { DoorPlan } from './door-plan.ts'
import { handOver, type Tell } from './hand-over.ts'
import type { SocketMessage } from './helper-channel.ts'
import { openInside } from './open-inside.ts'
import { probeInside, wayOut } from './probe-inside.ts'
import { closeDebugger } from '../debugger.ts'

// A program of its own: it runs inside the namespace of a container, opens the door's sockets there and hands them over. It
// imports as little as it can, because every run waits for its start. It has no way out itself, and knows nothing.

/** How long it may live, in milliseconds, whatever its parent does. */
const LIFETIME_MS = 120_000

/** How often it looks whether its parent is still there, in milliseconds. */
const PARENT_LOOK_MS = 500

/** What it is told to do. */
export interface HelperOrder {
  readonly do: 'open' | 'probe'
  readonly plan: DoorPlan
}

/** What it tells its parent. */
export type HelperMessage =
  | SocketMessage
  /** The probe is done; undefined: the door is the one way out. */
  | { readonly kind: 'probed'; readonly problem?: string }

const tell: Tell<HelperMessage> = (message, handle, done = () => undefined) => {
  process.send?.(message, handle, {}, done)
}

/** The last word: the process ends when it is out. */
function tellAndExit(message: HelperMessage): void {
  tell(message, undefined, () => process.exit(0))
}

async function openDoor(plan: DoorPlan): Promise<void> {
  // A recycled pid must not open a door that nobody guards: nothing listens before this is known.
  const problem = wayOut()
  if (problem !== undefined) {
    tellAndExit({ kind: 'fault', why: problem })
    return
  }
  handOver(await openInside(plan, process.env), tell)
}

closeDebugger()
process.on('disconnect', () => process.exit(1))
setTimeout(() => process.exit(1), LIFETIME_MS)
// A parent that ended while the socket was on its way is not always told by an event.
setInterval(() => process.connected || process.exit(1), PARENT_LOOK_MS)
process.on('message', (order: HelperOrder) => {
  const fail = (error: unknown) => tellAndExit({ kind: 'fault', why: String(error) })
  if (order.do === 'open') void openDoor(order.plan).catch(fail)
  else {
    probeInside(order.plan).then(
      (problem) => tellAndExit({ kind: 'probed', ...(problem !== undefined && { problem }) }),
      (error: unknown) => tellAndExit({ kind: 'probed', problem: String(error) }),
    )
  }
})
