import tap from 'tap'
import { openBlackHole } from '../support/black-hole.ts'
import { hello } from '../support/client-hello.ts'
import { valuesOf } from '../support/http-answer.ts'
import { openProxy, until } from '../support/proxy.ts'
import { openHttpUpstream, openUpstream } from '../support/upstream.ts'

const CONNECT = 'CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n'
const GET = 'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n'

void tap.test('tunnels of one client: 429, and a slot that is free serves again', async (t) => {
  const upstream = await openUpstream(t)
  const proxy = await openProxy(t, {
    hosts: { 'allowed.test': upstream },
    limits: { maxTunnelsPerClient: 2 },
  })
  const [first] = [await proxy.tunnel('allowed.test:443'), await proxy.tunnel('allowed.test:443')]
  const refused = await (await proxy.client(CONNECT)).answer()
  t.equal(refused.status, 429)
  t.strictSame(valuesOf(refused, 'retry-after'), ['1'])
  t.strictSame(valuesOf(refused, 'x-iterion-reason'), ['limit'])
  first.reset()
  await until('it is gone', () => proxy.proxy.stats().tunnels === 1)
  t.equal((await (await proxy.client(CONNECT)).answer({ connect: true })).status, 200)
})

void tap.test(
  'a slot is free again after a reset, a failed dial, a refused hello, an end',
  async (t) => {
    const upstream = await openUpstream(t, (connection) =>
      connection.socket.on('end', () => connection.end()),
    )
    const hole = await openBlackHole(t)
    const hosts = { 'allowed.test': upstream, 'no.allowed.test': [], 'slow.allowed.test': hole }
    const proxy = await openProxy(t, { hosts, limits: { maxTunnels: 1, dialTimeoutMs: 200 } })
    const ways: readonly (() => Promise<void>)[] = [
      async () => (await proxy.tunnel('allowed.test:443')).reset(),
      async () => {
        const client = await proxy.tunnel('allowed.test:443', hello('evil.test'))
        await client.closed()
      },
      async () => {
        const client = await proxy.tunnel('allowed.test:443', hello('allowed.test'))
        client.end()
        await client.closed()
      },
      async () => {
        const client = await proxy.client(CONNECT.replaceAll('allowed', 'no.allowed'))
        t.equal((await client.answer()).status, 502)
      },
      async () => {
        const client = await proxy.client(CONNECT.replaceAll('allowed', 'slow.allowed'))
        t.equal((await client.answer()).status, 504)
      },
      async () => {
        const client = await proxy.client(CONNECT.replaceAll('allowed', 'slow.allowed'))
        await until('it dials', () => proxy.lookups.at(-1) === 'slow.allowed.test')
        client.reset()
      },
    ]
    for (const [i, way] of ways.entries()) {
      await way()
      let status = 0
      await until(`a slot is free after way ${i}`, () => proxy.proxy.stats().tunnels === 0)
      for (let tries = 0; status !== 200 && tries < 60; tries++) {
        const client = await proxy.client(CONNECT)
        status = (await client.answer({ connect: true })).status
        client.reset()
        await until('it is gone', () => proxy.proxy.stats().tunnels === 0)
      }
      t.equal(status, 200, `after way ${i}`)
    }
  },
)

void tap.test(
  'connections beyond the tunnels and some spare ones get a whole 503 at once',
  async (t) => {
    const proxy = await openProxy(t, { limits: { maxTunnels: 1 } })
    const clients = await Promise.all(Array.from({ length: 257 }, () => proxy.client()))
    await until('all are there', () => proxy.proxy.stats().connections === 257)
    const surplus = await proxy.client()
    const answer = await surplus.answer()
    t.equal(answer.status, 503)
    t.strictSame(valuesOf(answer, 'retry-after'), ['1'])
    await surplus.closed()
    for (const client of clients) client.reset()
    await until('all are gone', () => proxy.proxy.stats().connections === 0)
    t.equal((await (await proxy.client(CONNECT)).answer()).status, 502, 'then others are served')
  },
)

void tap.test('the limits of the caller go before those of the policy', async (t) => {
  const upstream = await openHttpUpstream(t)
  const proxy = await openProxy(t, {
    hosts: { 'allowed.test': upstream },
    limits: { maxHeadBytes: 400 },
  })
  const long = GET.replace(/\r\n$/, `X: ${'a'.repeat(500)}\r\n\r\n`)
  for (const bytes of [long, CONNECT.replace(/\r\n$/, `X: ${'a'.repeat(500)}\r\n\r\n`)]) {
    const client = await proxy.client(bytes)
    t.equal((await client.answer()).status, 431)
    await client.closed()
  }
  t.equal((await (await proxy.client(GET)).answer()).status, 200)
})

void tap.test('a limit of 0 is none', async (t) => {
  const upstream = await openHttpUpstream(t)
  const proxy = await openProxy(t, {
    hosts: { 'allowed.test': upstream },
    limits: {
      headTimeoutMs: 0,
      resolveTimeoutMs: 0,
      dialTimeoutMs: 0,
      firstFlightTimeoutMs: 0,
      maxTunnels: 0,
    },
  })
  const client = await proxy.client('GET http://allowed.test/ ')
  await new Promise((resolve) => setTimeout(resolve, 120))
  client.send('HTTP/1.1\r\nHost: allowed.test\r\n\r\n')
  t.equal((await client.answer()).status, 200)
  t.equal((await (await proxy.client(CONNECT)).answer({ connect: true })).status, 200)
})

void tap.test('a limit that is none is refused when the proxy is made', async (t) => {
  for (const limits of [
    { maxTunnels: -1 },
    { dialTimeoutMs: 1.5 },
    { maxHeadBytes: 0 },
    { headTimeoutMs: NaN },
  ]) {
    await t.rejects(openProxy(t, { limits }), { code: 'OPTION_INVALID' })
  }
  await t.rejects(openProxy(t, { limits: { noSuchLimit: 1 } as object }), {
    code: 'OPTION_INVALID',
  })
})
