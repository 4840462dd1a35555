import tap from 'tap'
import { openProxy, until } from '../support/proxy.ts'
import { fieldsOf, openHttpUpstream, openUpstream } from '../support/upstream.ts'

// Clear-text HTTP through a tunnel could name any host of a shared edge.

const HOST = 'Host: evil.test\r\n\r\n'

/** Spellings of a request for another host that some server takes for HTTP. */
const FRONTING: readonly string[] = [
  `GET / HTTP/1.1\r\n${HOST}`,
  `\r\nGET / HTTP/1.1\r\n${HOST}`,
  `\r\n\r\n\n GET / HTTP/1.1\r\n${HOST}`,
  `\t GET / HTTP/1.1\r\n${HOST}`,
  `\x0b\x0cGET / HTTP/1.1\r\n${HOST}`,
  `get / HTTP/1.1\r\n${HOST}`,
  `GET / http/1.1\r\n${HOST}`,
  `GET / HtTp/1.0\r\n${HOST}`,
  `GET\t/\tHTTP/1.1\r\n${HOST}`,
  `GET\x0b/\x0bHTTP/1.1\r\n${HOST}`,
  `GET\x0c/\x0cHTTP/1.1\r\n${HOST}`,
  `GET\r/\rHTTP/1.1\r\n${HOST}`,
  ...['\x1c', '\x1d', '\x1e', '\x1f', '\x85', '\xa0'].flatMap((blank) => [
    `GET${blank}/${blank}HTTP/1.1\r\n${HOST}`,
    `${blank}GET / HTTP/1.1\r\n${HOST}`,
    `GET${blank}/\r\n\r\n`,
  ]),
  `GET /\xff\xfe HTTP/1.1\r\n${HOST}`,
  `GET /\x01 HTTP/1.1\r\n${HOST}`,
  `GET /\0 HTTP/1.1\r\n${HOST}`,
  `GET / HTTP/1.1\nHost: evil.test\n\n`,
  `GET /  x  HTTP/1.1\r\n${HOST}`,
  `GET http://evil.test/ HTTP/1.1\r\n${HOST}`,
  'GET http://evil.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n',
  `GET https://evil.test/ HTTP/1.1\r\n${HOST}`,
  `GET / HTTP/1.0\r\n${HOST}`,
  `GET / HTTP/0.9\r\n${HOST}`,
  `GET / HTTP/9.9\r\n${HOST}`,
  'GET http://evil.test/\r\n\r\n',
  'GET //evil.test/x\r\n\r\n',
  'GET /\r\n\r\n',
  `M-SEARCH * HTTP/1.1\r\n${HOST}`,
  `ANYTHING / HTTP/1.1\r\n${HOST}`,
  `CONNECT evil.test:443 HTTP/1.1\r\n${HOST}`,
  `OPTIONS * HTTP/1.1\r\n${HOST}`,
  `POST / HTTP/1.1\r\nContent-Length: 3\r\n${HOST}abc`,
]

/** Beginnings that no server is known to take for HTTP; they are told by the version, where it comes with them. */
const SLOPPY: readonly string[] = [
  `\0GET / HTTP/1.1\r\n${HOST}`,
  `\xef\xbb\xbfGET / HTTP/1.1\r\n${HOST}`,
  `"GET" / HTTP/1.1\r\n${HOST}`,
  `(GET) / HTTP/1.1\r\n${HOST}`,
  `junk\r\nGET / HTTP/1.1\r\n${HOST}`,
  `PROXY TCP4 9.9.9.9 9.9.9.9 1 80\r\nGET / HTTP/1.1\r\n${HOST}`,
]

void tap.test('no spelling of a request for another host reaches the upstream', async (t) => {
  const upstream = await openUpstream(t)
  for (const sni of ['enforce', 'report', 'off'] as const) {
    const proxy = await openProxy(t, {
      hosts: { 'allowed.test': upstream },
      tls: { sni },
      limits: { headTimeoutMs: 400 },
    })
    for (const bytes of [...FRONTING, ...SLOPPY]) {
      for (const port of [80, 443]) {
        const client = await proxy.tunnel(`allowed.test:${port}`, bytes)
        const answer = await client.answer()
        t.ok(answer.status >= 400 && answer.status < 600, JSON.stringify(bytes))
        await client.closed()
      }
    }
  }
  t.ok(
    upstream.connections.every(({ text }) => text === ''),
    'not one byte',
  )
  await until('all are let go', () => upstream.open === 0)
})

void tap.test('nor one byte at a time', async (t) => {
  const upstream = await openUpstream(t)
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const slow = async (bytes: string) => {
    const client = await proxy.tunnel('allowed.test:80')
    await client.sendPieces(bytes.split(''), 1)
    return (await client.answer()).status
  }
  const statuses = await Promise.all(FRONTING.filter((_, i) => i % 3 === 0).map(slow))
  t.ok(statuses.every((status) => status === 400))
  t.ok(upstream.connections.every(({ text }) => text === ''))
})

void tap.test('nor behind a good request on the same tunnel', async (t) => {
  const upstream = await openHttpUpstream(t)
  const proxy = await openProxy(t, {
    hosts: { 'allowed.test': upstream },
    limits: { headTimeoutMs: 200 },
  })
  const good = 'GET /good HTTP/1.1\r\nHost: allowed.test\r\n\r\n'
  for (const bytes of FRONTING) {
    const client = await proxy.tunnel('allowed.test:80', good)
    t.equal((await client.answer()).status, 200)
    client.send(bytes)
    t.ok((await client.answer()).status >= 400, JSON.stringify(bytes))
  }
  t.ok(upstream.received.every(({ line }) => line === 'GET /good HTTP/1.1'))
  await until('all are let go', () => upstream.open === 0)
})

void tap.test(
  'a good request is served, its Host made anew, and may be told from its tunnel in no other way',
  async (t) => {
    const upstream = await openHttpUpstream(t)
    const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
    const rows = [
      ['allowed.test:80', 'GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n', 'allowed.test'],
      [
        'allowed.test:80',
        'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n',
        'allowed.test',
      ],
      ['allowed.test:80', 'GET / HTTP/1.0\r\n\r\n', 'allowed.test'],
      [
        'allowed.test:8080',
        'GET / HTTP/1.1\r\nHost: ALLOWED.test.:8080\r\n\r\n',
        'allowed.test:8080',
      ],
      ['allowed.test:8080', 'GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n', 'allowed.test:8080'],
      ['allowed.test:443', '\r\nGET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n', 'allowed.test:443'],
    ] as const
    for (const [i, [target, bytes, host]] of rows.entries()) {
      const client = await proxy.tunnel(target, bytes)
      t.equal((await client.answer()).status, 200, bytes)
      t.strictSame(fieldsOf(await upstream.request(i), 'host'), [host])
    }
  },
)

void tap.test('HTTP to a server that has spoken already is refused', async (t) => {
  const upstream = await openUpstream(t, (connection) => connection.send('220 hello\r\n'))
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const client = await proxy.tunnel('allowed.test:80')
  await client.until('220 hello')
  client.send('GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n')
  await client.closed()
  t.equal(upstream.connections[0]?.text, '')
  t.strictSame(proxy.reasons, ['not-tls'])
})

void tap.test('what is no HTTP by any reading passes at once', async (t) => {
  const upstream = await openUpstream(t)
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const rows = [
    '\0\0\0\x08\x04\xd2\x16\x2f',
    'SSH-2.0-x\r\n',
    'EHLO me.test\r\n',
    '*1\r\n$4\r\nPING\r\n',
    '(',
    'NICK a\r\nUSER b\r\n',
  ]
  for (const [i, bytes] of rows.entries()) {
    await proxy.tunnel('allowed.test:22', bytes)
    await (await upstream.connection(i)).until(bytes.length)
    t.equal(upstream.connections[i]?.text, bytes)
  }
})
