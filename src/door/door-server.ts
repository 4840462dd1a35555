import type { Server } from 'node:net'

/**
 * Makes a server that came from elsewhere behave as the proxy's own: half-open connections, no delay, no connection
 * without an error listener. While nobody serves it, its connections are closed at once.
 */
export function prepareDoorServer(server: Server): Server {
  // Node keeps no options of a server that is handed over; it reads these two at every accept.
  Object.assign(server, { allowHalfOpen: true, noDelay: true })
  server.on('error', () => undefined)
  server.on('connection', (socket) => {
    socket.on('error', () => undefined)
    if (server.listenerCount('connection') === 1) socket.destroy()
  })
  return server
}
