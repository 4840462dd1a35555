import tap from 'tap'
import { hello } from '../support/client-hello.ts'
import { ESTABLISHED, openProxy, until } from '../support/proxy.ts'
import { openUpstream } from '../support/upstream.ts'

void tap.test('bytes go both ways, large and small, and the end comes last', async (t) => {
  const size = 2 * 1024 * 1024
  const blob = Buffer.alloc(size, 'z')
  const upstream = await openUpstream(t, (connection) => {
    connection.socket.on('end', () => connection.socket.end(blob))
  })
  const proxy = await openProxy(t, { audit: true, hosts: { 'allowed.test': upstream } })
  const first = hello('allowed.test')
  const client = await proxy.tunnel('allowed.test:443', Buffer.concat([first, blob]))
  client.end()
  await client.until(ESTABLISHED.length + size)
  t.ok(client.bytes.subarray(ESTABLISHED.length).equals(blob))
  t.ok(upstream.connections[0]?.bytes.equals(Buffer.concat([first, blob])))
  const closed = await proxy.event('tunnel_closed')
  t.match(closed, { host: 'allowed.test', port: 443, via: 'connect', generation: 1, cause: 'end' })
  t.strictSame([closed.bytes_up, closed.bytes_down], [first.length + size, size])
  t.match(proxy.of('network_allowed'), [
    { host: 'allowed.test', port: 443, rule: 'allowed.test', address: '127.0.0.1' },
  ])
  const { tunnels, connections, allowed } = proxy.proxy.stats()
  t.strictSame({ tunnels, connections, allowed }, { tunnels: 0, connections: 0, allowed: 1 })
})

void tap.test(
  'a reset is passed on as a reset, both ways, before and after the first flight',
  async (t) => {
    const upstream = await openUpstream(t)
    const rules = ['allowed.test:*', `127.0.0.1:${upstream.port}`]
    const proxy = await openProxy(t, { rules, hosts: { 'allowed.test': upstream } })
    const targets = [
      ['allowed.test:443', hello('allowed.test')],
      ['allowed.test:443', ''],
      [`127.0.0.1:${upstream.port}`, 'x'],
    ] as const
    let index = 0
    for (const [target, early] of targets) {
      for (const side of ['client', 'upstream'] as const) {
        const client = await proxy.tunnel(target, early)
        const upper = await upstream.connection(index++)
        if (early.length > 0) await upper.until(early.length)
        const [one, other] = side === 'client' ? [client, upper] : [upper, client]
        one.reset()
        await until(`the other side of ${target} is closed`, () => other.isClosed)
        t.equal(other.error?.code, 'ECONNRESET', `${side} of ${target}`)
      }
    }
    t.ok(proxy.of('tunnel_closed').every(({ cause }) => cause === 'reset'))
    t.equal(proxy.proxy.stats().tunnels, 0)
  },
)

void tap.test(
  'HTTP/1.0, any Host and extra fields do for a CONNECT; a body does not',
  async (t) => {
    const upstream = await openUpstream(t)
    const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
    const good = [
      'HTTP/1.0\r\n',
      'HTTP/1.1\r\nHost: other\r\n',
      'HTTP/1.1\r\nUser-Agent: x\r\nProxy-Connection: keep-alive\r\n',
    ]
    for (const rest of good) {
      const client = await proxy.client(`CONNECT allowed.test:443 ${rest}\r\n`)
      t.equal((await client.answer({ connect: true })).status, 200, rest)
      t.equal(client.text, ESTABLISHED)
    }
    for (const framing of [
      'Content-Length: 0',
      'Content-Length: 5',
      'Transfer-Encoding: chunked',
    ]) {
      const client = await proxy.client(
        `CONNECT allowed.test:443 HTTP/1.1\r\nHost: x\r\n${framing}\r\n\r\nhello`,
      )
      t.equal((await client.answer()).status, 400, framing)
    }
  },
)

void tap.test(
  'an upstream that refuses: 502 with its reason, and the client may try again',
  async (t) => {
    const upstream = await openUpstream(t)
    const { port } = upstream
    const rules = ['allowed.test', `127.0.0.1:${port}`]
    const proxy = await openProxy(t, { rules, hosts: { 'allowed.test': upstream } })
    upstream.server.close()
    for (const target of ['allowed.test:443', `127.0.0.1:${port}`]) {
      const client = await proxy.client(`CONNECT ${target} HTTP/1.1\r\nHost: x\r\n\r\n`)
      const answer = await client.answer()
      t.equal(answer.status, 502)
      t.match(answer.phrase, /ECONNREFUSED/)
    }
    const [block] = proxy.of('network_blocked')
    t.match(block, { reason: 'dial', address: '127.0.0.1' })
  },
)

void tap.test(
  'a resolver that breaks is a fault of ours: 500, told in an event, not to the client',
  async (t) => {
    const broken = () => 42 as unknown as []
    const proxy = await openProxy(t, { hosts: { 'allowed.test': broken } })
    for (const bytes of [
      'CONNECT allowed.test:443 HTTP/1.1\r\nHost: x\r\n\r\n',
      'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n',
    ]) {
      const client = await proxy.client(bytes)
      const answer = await client.answer()
      t.equal(answer.status, 500)
      t.notMatch(client.text, /TypeError|iterable|\.ts/)
      await client.closed()
    }
    t.equal(proxy.of('internal_error').length, 2)
    t.equal(proxy.proxy.stats().denied.internal, 2)
    t.equal(proxy.proxy.stats().tunnels, 0)
  },
)
