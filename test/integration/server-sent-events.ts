import tap from 'tap'
import { DEFAULT_LIMITS } from '../../src/proxy/limits.ts'
import { openProxy, pause, until } from '../support/proxy.ts'
import { openHttpUpstream } from '../support/upstream.ts'

const GET =
  'GET http://allowed.test/events HTTP/1.1\r\nHost: allowed.test\r\nAccept: text/event-stream\r\n\r\n'
const HEAD =
  'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n'

void tap.test('each event arrives when it is sent, and silence ends nothing', async (t) => {
  t.equal(DEFAULT_LIMITS.responseIdleMs, 0)
  t.equal(DEFAULT_LIMITS.tunnelIdleMs, 0)
  const upstream = await openHttpUpstream(t, () => undefined)
  const proxy = await openProxy(t, {
    hosts: { 'allowed.test': upstream },
    limits: { headTimeoutMs: 300, firstFlightTimeoutMs: 300, dialTimeoutMs: 300 },
  })
  const plain = await proxy.client(GET)
  const tunnel = await proxy.tunnel('allowed.test:80', GET)
  for (const [i, client] of [plain, tunnel].entries()) {
    const { connection } = await upstream.request(i)
    const upper = upstream.connections[connection]
    upper?.send(HEAD)
    await client.until('text/event-stream')
    upper?.send('9\r\ndata: 1\n\n\r\n')
    await client.until('data: 1\n\n')
  }
  await pause(400)
  for (const [i, client] of [plain, tunnel].entries()) {
    t.notOk(client.isEnded || client.isClosed)
    const upper = upstream.connections[upstream.received[i]?.connection ?? 0]
    upper?.send('9\r\ndata: 2\n\n\r\n0\r\n\r\n')
    t.equal((await client.answer()).body, 'data: 1\n\ndata: 2\n\n')
  }
})

void tap.test('a client that leaves a stream ends it upstream', async (t) => {
  const upstream = await openHttpUpstream(t, () => `${HEAD}9\r\ndata: 1\n\n\r\n`)
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const client = await proxy.client(GET)
  await client.until('data: 1')
  client.reset()
  await until('the upstream is let go', () => upstream.open === 0)
})
