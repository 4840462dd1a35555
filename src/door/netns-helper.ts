import { createServer } from 'node:net'
import { DOOR_HOST, DOOR_PORT } from './door.ts'
import { probeInside, wayOut } from './probe-inside.ts'

// A program of its own: it runs inside the namespace of a container, opens the door's socket there and hands it over. It
// imports as little as it can, because every run waits for its start. It has no way out itself, and knows nothing.

/** How long it may live, in milliseconds, whatever its parent does. */
const LIFETIME_MS = 120_000

/** How often it looks whether its parent is still there, in milliseconds. */
const PARENT_LOOK_MS = 500

/** What it tells its parent. */
export type HelperMessage =
  /** The socket comes with it. */
  | { readonly kind: 'socket' }
  | { readonly kind: 'fault'; readonly why: string }
  /** The probe is done; undefined: the door is the one way out. */
  | { readonly kind: 'probed'; readonly problem?: string }

function tell(message: HelperMessage, done: () => void = () => undefined): void {
  process.send?.(message, undefined, {}, done)
}

/** The last word: the process ends when it is out. */
function tellAndExit(message: HelperMessage): void {
  tell(message, () => process.exit(0))
}

function openDoor(): void {
  // A recycled pid must not open a door that nobody guards: nothing listens before this is known.
  const problem = wayOut()
  if (problem !== undefined) {
    tellAndExit({ kind: 'fault', why: problem })
    return
  }
  const server = createServer()
  server.on('error', (error) => tellAndExit({ kind: 'fault', why: error.message }))
  server.listen({ host: DOOR_HOST, port: DOOR_PORT, backlog: 511 }, () => {
    const message: HelperMessage = { kind: 'socket' }
    // From the callback on the socket is the parent's: an exit before it would lose it.
    process.send?.(message, server, {}, () => server.close())
  })
}

process.on('disconnect', () => process.exit(1))
setTimeout(() => process.exit(1), LIFETIME_MS)
// A parent that ended while the socket was on its way is not always told by an event.
setInterval(() => process.connected || process.exit(1), PARENT_LOOK_MS)
process.on('message', (order) => {
  if (order !== 'probe') return
  probeInside(DOOR_HOST, DOOR_PORT).then(
    (problem) => tellAndExit({ kind: 'probed', ...(problem !== undefined && { problem }) }),
    (error: unknown) => tellAndExit({ kind: 'probed', problem: String(error) }),
  )
})
if (process.argv[2] === 'open') openDoor()
