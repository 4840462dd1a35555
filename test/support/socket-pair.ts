import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { Test } from 'tap'

/** Two ends of one TCP connection over loopback, both half-open and paused. They are closed with the test. */
export async function openSocketPair(t: Test): Promise<[near: Socket, far: Socket]> {
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true, noDelay: true })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const accepted = new Promise<Socket>((resolve) => server.once('connection', resolve))
  const far = connect({ port, host: '127.0.0.1', allowHalfOpen: true, noDelay: true })
  await new Promise((resolve) => far.once('connect', resolve))
  const near = await accepted
  server.close()
  for (const socket of [near, far]) {
    socket.on('error', () => undefined)
    t.teardown(() => socket.destroy())
  }
  return [near, far]
}
