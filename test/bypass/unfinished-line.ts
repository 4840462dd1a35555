import tap from 'tap'
import { openProxy } from '../support/proxy.ts'
import { openUpstream } from '../support/upstream.ts'

// A request line without its end: an end of the stream, or patience, may stand for it.

const UNFINISHED = [
  'GET http://evil.test/',
  'GET\thttp://evil.test/',
  '\r\n GET //evil.test/x',
  'GET /',
  'GET / HTTP/',
  'get ws://evil.test/ http/',
]

void tap.test('with an end behind it, not a byte goes on', async (t) => {
  const upstream = await openUpstream(t)
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  for (const bytes of UNFINISHED) {
    const client = await proxy.tunnel('allowed.test:80', bytes)
    client.end()
    await client.closed()
    const apart = await proxy.tunnel('allowed.test:80')
    await apart.sendPieces([bytes.slice(0, 4), bytes.slice(4)])
    apart.end()
    await apart.closed()
  }
  t.ok(upstream.connections.every(({ text }) => text === ''))
  t.strictSame(new Set(proxy.reasons), new Set(['sni']))
})

void tap.test('with silence behind it, not a byte goes on', async (t) => {
  const upstream = await openUpstream(t)
  const limits = { firstFlightTimeoutMs: 60 }
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream }, limits })
  const silent = UNFINISHED.map(async (bytes) => {
    const client = await proxy.tunnel('allowed.test:80', bytes)
    await client.closed()
  })
  await Promise.all(silent)
  t.ok(upstream.connections.every(({ text }) => text === ''))
})

void tap.test('other text with an end behind it passes', async (t) => {
  const upstream = await openUpstream(t)
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const rows = ['QUIT', 'hello world', 'user@host', '\r\n', 'GET']
  for (const [i, bytes] of rows.entries()) {
    const client = await proxy.tunnel('allowed.test:22', bytes)
    client.end()
    const connection = await upstream.connection(i)
    t.equal(await connection.until(bytes.length), bytes)
    connection.end()
    await client.closed()
  }
})
