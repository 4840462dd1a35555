import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import tap from 'tap'
import { prepareDoorServer } from '../../src/door/door-server.ts'
import { openRaw } from '../support/raw-client.ts'

void tap.test('a server from elsewhere serves as one of ours', async (t) => {
  const server = prepareDoorServer(createServer())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const early = await openRaw(t, port)
  await early.closed()
  t.pass('nobody serves yet, so nobody is kept waiting')
  const accepted = once(server, 'connection')
  const client = await openRaw(t, port)
  const [socket] = (await accepted) as [Socket]
  t.equal(socket.allowHalfOpen, true)
  t.ok(socket.listenerCount('error') > 0, 'an error is no crash')
  client.end()
  socket.resume()
  await once(socket, 'end')
  socket.end('late')
  await client.until('late')
  server.emit('error', new Error('accept failed'))
})
