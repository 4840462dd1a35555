import tap from 'tap'
import { openProxy, until } from '../support/proxy.ts'
import { fieldsOf, openHttpUpstream } from '../support/upstream.ts'

const UPGRADE =
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n'
const SWITCH =
  'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n'

void tap.test(
  'a WebSocket by each way in: frames go both ways, and an event ends it',
  async (t) => {
    const upstream = await openHttpUpstream(t, () => SWITCH)
    const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
    const plain = await proxy.client(
      `GET ws://allowed.test/chat?x HTTP/1.1\r\nHost: allowed.test\r\n${UPGRADE}`,
    )
    const tunnel = await proxy.tunnel(
      'allowed.test:80',
      `GET /chat?x HTTP/1.1\r\nHost: allowed.test\r\n${UPGRADE}`,
    )
    for (const [i, client] of [plain, tunnel].entries()) {
      t.equal((await client.answer()).status, 101)
      const request = await upstream.request(i)
      t.equal(request.line, 'GET /chat?x HTTP/1.1')
      t.strictSame(fieldsOf(request, 'upgrade'), ['websocket'])
      t.strictSame(fieldsOf(request, 'sec-websocket-key'), ['AAAAAAAAAAAAAAAAAAAAAA=='])
      const upper = upstream.connections[request.connection]
      client.send('\x81\x02hi')
      await upper?.until('\x81\x02hi')
      upper?.send('\x81\x02yo')
      await client.until('\x81\x02yo')
      upper?.send('\x88\x00')
      upper?.end()
      await client.until('\x88\x00')
      await client.closed()
    }
    await until('all is over', () => proxy.proxy.stats().tunnels === 0)
    const closed = proxy.of('tunnel_closed').filter(({ cause }) => cause === 'end')
    t.strictSame(closed.map(({ via }) => via).toSorted(), ['connect', 'forward'], 'one each')
    t.ok(closed.every(({ bytes_down }) => bytes_down > 0))
  },
)

void tap.test(
  'a WebSocket is a tunnel: it takes a slot, obeys the idle limit, and ends with a drain',
  async (t) => {
    const upstream = await openHttpUpstream(t, () => SWITCH)
    const hosts = { 'allowed.test': upstream }
    const ask = `GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n${UPGRADE}`
    const limited = await openProxy(t, { hosts, limits: { maxTunnels: 1, tunnelIdleMs: 250 } })
    const one = await limited.client(ask)
    t.equal((await one.answer()).status, 101)
    t.equal((await (await limited.client(ask)).answer()).status, 503)
    t.equal(
      (await (await limited.client('CONNECT allowed.test:80 HTTP/1.1\r\nHost: x\r\n\r\n')).answer())
        .status,
      503,
    )
    t.equal((await limited.event('tunnel_closed')).cause, 'idle')
    await until(
      'it is gone',
      () => limited.proxy.stats().connections === 2 || limited.proxy.stats().tunnels === 0,
    )
    t.equal((await (await limited.client(ask)).answer()).status, 101, 'its slot is free again')

    const drained = await openProxy(t, { hosts })
    const open = await drained.client(ask)
    t.equal((await open.answer()).status, 101)
    await drained.proxy.close({ drainTimeoutMs: 30 })
    t.equal((await drained.event('tunnel_closed')).cause, 'drain')
    await until('the client knows', () => open.isClosed || open.isEnded)
  },
)
