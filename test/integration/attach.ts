import { type AddressInfo, createServer, type Server } from 'node:net'
import tap, { type Test } from 'tap'
import { openProxy, policyWith } from '../support/proxy.ts'
import { openRaw } from '../support/raw-client.ts'
import { openHttpUpstream } from '../support/upstream.ts'

const GET = 'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n'

async function listening(t: Test, options: object = {}): Promise<{ server: Server; port: number }> {
  const server = createServer(options)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  return { server, port: (server.address() as AddressInfo).port }
}

void tap.test('a server of any make is served, and closed with the proxy', async (t) => {
  const upstream = await openHttpUpstream(t)
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const makes = [
    {},
    { allowHalfOpen: true },
    { pauseOnConnect: true },
    { noDelay: true, keepAlive: true },
  ]
  const servers = await Promise.all(makes.map((make) => listening(t, make)))
  for (const { server, port } of servers) {
    proxy.proxy.attach(server)
    proxy.proxy.attach(server)
    const client = await openRaw(t, port, { send: GET })
    client.end()
    t.equal((await client.answer()).body, 'ok')
    const denied = await openRaw(t, port, { send: GET.replaceAll('allowed', 'evil') })
    t.equal((await denied.answer()).status, 403)
  }
  t.equal(proxy.reasons.length, makes.length, 'attached twice is attached once')
  await proxy.proxy.close({ drainTimeoutMs: 0 })
  t.ok(servers.every(({ server }) => !server.listening))
})

void tap.test(
  'an attached listener is one of our own, even if it only listens later',
  async (t) => {
    const early = await listening(t)
    const proxy = await openProxy(t)
    proxy.proxy.attach(early.server)
    const late = createServer()
    t.teardown(() => late.close())
    proxy.proxy.attach(late)
    await new Promise<void>((resolve) => late.listen(0, '127.0.0.1', resolve))
    const ports = [early.port, (late.address() as AddressInfo).port]
    for (const port of ports) {
      proxy.proxy.setPolicy(policyWith({ rules: [`127.0.0.1:${port}`] }))
      const client = await proxy.client(`CONNECT 127.0.0.1:${port} HTTP/1.1\r\nHost: x\r\n\r\n`)
      t.equal((await client.answer()).status, 508)
    }
  },
)

void tap.test('a server with connections from before does not hold up a close', async (t) => {
  const { server, port } = await listening(t)
  server.once('connection', (socket) => socket.on('error', () => undefined))
  await openRaw(t, port)
  const proxy = await openProxy(t)
  proxy.proxy.attach(server)
  await proxy.proxy.close({ drainTimeoutMs: 0 })
  t.equal(proxy.proxy.stats().connections, 0)
})

void tap.test('an error of an attached server is no crash', async (t) => {
  const { server } = await listening(t)
  const proxy = await openProxy(t)
  proxy.proxy.attach(server)
  server.emit('error', new Error('accept failed'))
  t.equal(proxy.proxy.stats().connections, 0)
})

void tap.test('a port that is taken, or an address of another machine, is told', async (t) => {
  const { port } = await listening(t)
  const proxy = await openProxy(t)
  await t.rejects(proxy.proxy.listen({ host: '127.0.0.1', port }), {
    code: 'LISTEN_FAILED',
    message: /port is taken/,
  })
  const open = await openProxy(t, { insecureNoAuth: true })
  await t.rejects(open.proxy.listen({ host: '192.0.2.77', port: 0 }), { code: 'LISTEN_FAILED' })
})
