import tap from 'tap'
import { valuesOf } from '../support/http-answer.ts'
import { openProxy, until } from '../support/proxy.ts'
import { fieldsOf, openHttpUpstream } from '../support/upstream.ts'

// Make the proxy believe in a tunnel that the upstream has not agreed to, and speak HTTP through it.

const HEAD = 'GET http://allowed.test/s HTTP/1.1\r\nHost: allowed.test\r\n'
const UPGRADE =
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n'
const SECOND = 'GET http://allowed.test/secret HTTP/1.1\r\nHost: evil.test\r\n\r\n'
const SWITCH = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n'

void tap.test(
  'an upstream that does not switch: its answer, and the connection ends',
  async (t) => {
    let answer = ''
    const upstream = await openHttpUpstream(t, () => answer)
    const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
    const rows: readonly (readonly [string, number])[] = [
      [
        'HTTP/1.1 426 Upgrade Required\r\nSec-WebSocket-Version: 13\r\nContent-Length: 0\r\n\r\n',
        426,
      ],
      [
        'HTTP/1.1 200 OK\r\nUpgrade: websocket\r\nConnection: upgrade\r\nContent-Length: 2\r\n\r\nok',
        200,
      ],
      ['HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n', 200],
      [`${SWITCH}Upgrade: h2c\r\n\r\n`, 502],
      [`${SWITCH}Upgrade: TLS/1.2\r\n\r\n`, 502],
      [`${SWITCH}\r\n`, 502],
    ]
    for (const [i, [bytes, status]] of rows.entries()) {
      answer = bytes
      const client = await proxy.client(
        HEAD + UPGRADE.replace('Version: 13', 'Version: 1337') + '\r\n' + SECOND,
      )
      const got = await client.answer()
      t.equal(got.status, status, bytes)
      client.send(SECOND)
      await client.closed()
      t.equal(client.text.match(/HTTP\/1\.1 /g)?.length, 1)
      t.equal(upstream.received.length, i + 1, 'what stood behind is no request')
      t.notOk(upstream.connections.some(({ text }) => text.includes('secret')))
    }
    await until('all are let go', () => proxy.proxy.stats().connections === 0)
  },
)

void tap.test('a half-hearted upgrade goes on as a plain request', async (t) => {
  const upstream = await openHttpUpstream(t)
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const rows = [
    ['GET', '1.1', 'Upgrade: websocket\r\n'],
    ['GET', '1.1', 'Connection: keep-alive\r\nUpgrade: websocket\r\n'],
    ['GET', '1.1', 'Connection: upgrade\r\n'],
    ['GET', '1.1', 'Connection: upgrade\r\nUpgrade: websocket\r\nUpgrade: websocket\r\n'],
    ['GET', '1.0', UPGRADE],
    ['POST', '1.1', UPGRADE],
    ['HEAD', '1.1', UPGRADE],
  ] as const
  for (const [i, [method, version, fields]] of rows.entries()) {
    const client = await proxy.client(
      `${method} http://allowed.test/ HTTP/${version}\r\nHost: allowed.test\r\n${fields}\r\n`,
    )
    t.equal((await client.answer({ method })).status, 200, `${method} ${fields}`)
    const request = await upstream.request(i)
    t.strictSame(fieldsOf(request, 'upgrade'), [])
    t.notOk(fieldsOf(request, 'connection').join().includes('pgrade'))
  }
})

void tap.test('a body together with an upgrade is refused', async (t) => {
  const upstream = await openHttpUpstream(t)
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  for (const framing of [
    'Content-Length: 5\r\n\r\nhello',
    'Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n',
  ]) {
    for (const method of ['GET', 'POST']) {
      const client = await proxy.client(HEAD.replace('GET', method) + UPGRADE + framing)
      t.equal((await client.answer()).status, 400)
      await client.closed()
    }
  }
  t.equal(upstream.received.length, 0)
})

void tap.test('bytes sent before the 101 reach the upstream only behind it', async (t) => {
  const upstream = await openHttpUpstream(t, () => undefined)
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const client = await proxy.client(`${HEAD}${UPGRADE}\r\n\x81\x02hi`)
  await upstream.request()
  const [connection] = upstream.connections
  t.notOk(connection?.text.includes('hi'))
  connection?.send(`${SWITCH}Upgrade: WebSocket\r\nContent-Length: 5\r\n\r\n\x81\x02yo`)
  const answer = await client.answer()
  t.strictSame(valuesOf(answer, 'upgrade'), ['websocket'])
  t.strictSame(valuesOf(answer, 'content-length'), [])
  await client.until('\x81\x02yo')
  await connection?.until('\x81\x02hi')
})
