import type { Socket as DatagramSocket } from 'node:dgram'
import type { Server } from 'node:net'
import type { SocketMessage } from './helper-channel.ts'
import type { OpenedDoor } from './open-inside.ts'

/** Says something to the parent of a helper; `done` is called when it is out. */
export type Tell<M> = (message: M, handle?: Server | DatagramSocket, done?: () => void) => void

/** Hands all sockets of a door to the parent of this process. */
export function handOver(opened: OpenedDoor, tell: Tell<SocketMessage>): void {
  const { servers, datagrams, taken, missing } = opened
  // From the callback on a socket is the parent's: an exit before it would lose it.
  for (const { server, use } of servers) tell({ kind: 'socket', use }, server, () => server.close())
  tell({ kind: 'socket', use: 'datagrams' }, datagrams, () => datagrams.close())
  const sockets = servers.length + 1
  tell({ kind: 'opened', sockets, taken, ...(missing !== undefined && { missing }) })
}
