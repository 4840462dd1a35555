import { createSocket, type Socket as DatagramSocket } from 'node:dgram'
import { createServer, type Server } from 'node:net'
import {
  DOOR_HOST,
  DOOR_PORT,
  type DoorServer,
  type DoorSockets,
  NAMES_PORT,
  portsTakenBy,
} from './door.ts'
import type { DoorPlan } from './door-plan.ts'
import { leadHere, redirect, type Redirect } from './inside-rules.ts'

// Runs inside a namespace, where a door is opened: imports little, because every run waits for it.

const BACKLOG = 511
const ANY = '0.0.0.0'
const ANY_6 = '::'

/** The sockets of a door, as they were opened. */
export type OpenedDoor = DoorSockets & { readonly datagrams: DatagramSocket }

type Env = Readonly<Partial<Record<string, string>>>

/**
 * Opens all sockets of a door in the namespace of this process. Connections to the ports of the plan are brought to sockets
 * on ports of the system's choice, so that the sandbox's own servers can have theirs; where that cannot be, the door
 * listens on the ports themselves.
 *
 * @param env the environment of the programs that set them
 * @throws {Error} if the proxy's port or the resolver's cannot be had, or the addresses of the plan lead nowhere
 */
export async function openInside(plan: DoorPlan, env: Env): Promise<OpenedDoor> {
  const opened: DoorServer[] = []
  try {
    const leading = leadHere(plan, env)
    if (!plan.isLoopback) await assertLed(plan, leading)
    opened.push({ server: await listen(DOOR_HOST, DOOR_PORT), use: 'proxy' })
    opened.push({ server: await listen(plan.stub, NAMES_PORT), use: 'names' })
    const datagrams = await bind(plan.stub, NAMES_PORT)
    const [hidden, unled] = await Promise.all([openHidden(plan, env), leading])
    if (typeof hidden !== 'string') {
      opened.push(...hidden.servers)
      return { servers: opened, datagrams, taken: [], missing: unled ?? hidden.missing }
    }
    const taken = await openPlainly(plan)
    opened.push(...taken)
    const ports = taken.map(({ use }) => Number(use))
    return { servers: opened, datagrams, taken: ports, missing: hidden }
  } catch (error) {
    for (const { server } of opened) server.close()
    throw error
  }
}

/** Where no address is this namespace's own but by a route, there is nowhere to listen without it. */
async function assertLed({ range }: DoorPlan, leading: Promise<string | undefined>): Promise<void> {
  const fault = await leading
  if (fault !== undefined) {
    throw new Error(
      `door.syntheticRange ${range} cannot be led to lo: ${fault}; install iproute2, or leave the range out`,
    )
  }
}

interface HiddenSockets {
  readonly servers: readonly DoorServer[]
  /** Why IPv6 addresses do not lead there; undefined: they do, or none is to. */
  readonly missing: string | undefined
}

/** Sockets on ports of the system's choice, and rules that lead there; a text says why not. */
async function openHidden(plan: DoorPlan, env: Env): Promise<HiddenSockets | string> {
  const host = plan.routes.some(({ family }) => family === 6) ? ANY_6 : ANY
  const opened: DoorServer[] = []
  const redirects: Redirect[] = []
  for (const port of plan.ports) {
    const server = await listen(host, 0)
    opened.push({ server, use: port })
    redirects.push({ from: port, to: (server.address() as { port: number }).port })
  }
  const fault = await redirect(4, plan, redirects, env)
  // One family after the other: what leads to a socket that is closed again would be worse than no rule.
  if (fault === undefined) {
    return { servers: opened, missing: await redirect(6, plan, redirects, env) }
  }
  for (const { server } of opened) server.close()
  return fault
}

/** Sockets on the ports themselves. The proxy's own cannot be one of them: it is taken. */
async function openPlainly(plan: DoorPlan): Promise<DoorServer[]> {
  const host = plan.routes.some(({ family }) => family === 6) ? ANY_6 : ANY
  const opened: DoorServer[] = []
  for (const port of portsTakenBy(plan)) {
    opened.push({ server: await listen(host, port), use: port })
  }
  return opened
}

function listen(host: string, port: number): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer({ allowHalfOpen: true, noDelay: true })
    server.once('error', (error) => reject(new Error(`${host}:${port}: ${error.message}`)))
    server.listen({ host, port, backlog: BACKLOG }, () => resolve(server))
  })
}

function bind(address: string, port: number): Promise<DatagramSocket> {
  return new Promise((resolve, reject) => {
    const socket = createSocket('udp4')
    socket.once('error', (error) => reject(new Error(`${address}:${port}/udp: ${error.message}`)))
    socket.bind({ address, port, exclusive: true }, () => resolve(socket))
  })
}
