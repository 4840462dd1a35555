import tap, { type Test } from 'tap'
import { openProxy, type TestProxy, until } from '../support/proxy.ts'
import { type HttpUpstream, openHttpUpstream } from '../support/upstream.ts'

const HOST = 'Host: allowed.test\r\n'
const GET = `GET http://allowed.test/ HTTP/1.1\r\n${HOST}`
const POST = `POST http://allowed.test/ HTTP/1.1\r\n${HOST}`

interface Stand {
  readonly proxy: TestProxy
  readonly upstream: HttpUpstream
}

async function openStand(t: Test, parts: Parameters<typeof openProxy>[1] = {}): Promise<Stand> {
  const upstream = await openHttpUpstream(t)
  const hosts = { 'allowed.test': upstream, 'a.allowed.test': upstream, 'evil.test': upstream }
  return { proxy: await openProxy(t, { hosts, ...parts }), upstream }
}

/** Bytes that have to be answered with a 4xx or 501 and a close, and of which the upstream sees no whole request. */
const REJECTED: Readonly<Record<string, readonly string[]>> = {
  'H-01 both framings': [
    `${POST}Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nX`,
    `${POST}Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n0\r\n\r\nX`,
    `${POST}Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n`,
  ],
  'H-03 a coding besides chunked': [
    'chunked, gzip',
    'gzip, chunked',
    'identity',
    'xchunked',
    'chunked, chunked',
    'chunked;a=b',
    '',
  ].map((coding) => `${POST}Transfer-Encoding: ${coding}\r\n\r\n0\r\n\r\n`),
  'H-03 codings on two lines': [
    `${POST}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n`,
    `${POST}Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    `${POST}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    `POST http://allowed.test/ HTTP/1.0\r\n${HOST}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  ],
  'H-04 several lengths': [
    `${POST}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!`,
    `${POST}Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello`,
    `${POST}Content-Length: 5, 5\r\n\r\nhello`,
  ],
  'H-05 odd lengths': [
    '+5',
    '0x5',
    '5_0',
    '-0',
    '5 5',
    '1e1',
    '99999999999999999999',
    '',
    '5,',
  ].map((length) => `${POST}Content-Length: ${length}\r\n\r\nhello`),
  'H-06 a blank before the colon': [
    'GET http://allowed.test/ HTTP/1.1\r\nHost : allowed.test\r\n\r\n',
    `${GET}X-A\t: 1\r\n\r\n`,
    `${POST}Content-Length : 5\r\n\r\nhello`,
  ],
  'H-08 a folded line': [
    `${POST}X-A: 1\r\n Content-Length: 5\r\n\r\nhello`,
    `${POST}X-A: 1\r\n\tTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    'GET http://allowed.test/ HTTP/1.1\r\nHost:\r\n allowed.test\r\n\r\n',
  ],
  'H-09 bare LF and CR': [
    'GET http://allowed.test/ HTTP/1.1\nHost: allowed.test\n\n',
    'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\rX: y\r\n\r\n',
    'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\n\r\n',
    'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\n',
    'GET http://allowed.test/ HTTP/1.1\rHost: allowed.test\r\r',
    `${POST}Transfer-Encoding: chunked\r\n\r\n1\nx\n0\n\n`,
  ],
  'H-11 another Host': [
    'GET http://allowed.test/x HTTP/1.1\r\nHost: evil.test\r\n\r\n',
    'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test:8080\r\n\r\n',
    'GET http://allowed.test/ HTTP/1.1\r\n\r\n',
    'GET http://allowed.test/ HTTP/1.1\r\nHost:\r\n\r\n',
    'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test, evil.test\r\n\r\n',
    'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test@evil.test\r\n\r\n',
    'GET http://allowed.test/ HTTP/1.0\r\nHost: evil.test\r\n\r\n',
    'GET http://allowed.test/ HTTP/1.1\r\nHost: http://allowed.test\r\n\r\n',
  ],
  'H-12 no absolute-form': [
    `GET / HTTP/1.1\r\n${HOST}\r\n`,
    `OPTIONS * HTTP/1.1\r\n${HOST}\r\n`,
    `GET //allowed.test/ HTTP/1.1\r\n${HOST}\r\n`,
    `GET /http://allowed.test/ HTTP/1.1\r\n${HOST}\r\n`,
  ],
  'H-14 authority-form without CONNECT': [
    `GET allowed.test:80 HTTP/1.1\r\n${HOST}\r\n`,
    `GET allowed.test HTTP/1.1\r\n${HOST}\r\n`,
    `GET http:allowed.test/ HTTP/1.1\r\n${HOST}\r\n`,
    `GET https://allowed.test/ HTTP/1.1\r\n${HOST}\r\n`,
    `GET ftp://allowed.test/ HTTP/1.1\r\n${HOST}\r\n`,
  ],
  'H-20 userinfo': [
    'CONNECT allowed.test:443@evil.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n',
    'CONNECT user:pw@allowed.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n',
    'CONNECT @evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n',
    'GET http://allowed.test@evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n',
    'GET http://user:pw@allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n',
  ],
  'H-21 a CONNECT without a port': [
    'CONNECT allowed.test HTTP/1.1\r\nHost: allowed.test\r\n\r\n',
    'CONNECT allowed.test: HTTP/1.1\r\nHost: allowed.test\r\n\r\n',
    'CONNECT allowed.test:0 HTTP/1.1\r\nHost: allowed.test\r\n\r\n',
    'CONNECT allowed.test:65536 HTTP/1.1\r\nHost: allowed.test\r\n\r\n',
    'CONNECT allowed.test:+443 HTTP/1.1\r\nHost: allowed.test\r\n\r\n',
    'GET http://allowed.test:/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n',
  ],
  'H-23 brackets round a name': [
    '[allowed.test]:443',
    '[[allowed.test]]:443',
    '[allowed.test.]:443',
    'allowed.test]:443',
    '[127.0.0.1]:443',
    '[::1%lo]:443',
    '[]:443',
  ].map((target) => `CONNECT ${target} HTTP/1.1\r\nHost: x\r\n\r\n`),
  'H-24 IPv6 without brackets or port': ['[::1]', '::1:443', '[::1]443', '[::1]:', '[::1'].map(
    (target) => `CONNECT ${target} HTTP/1.1\r\nHost: x\r\n\r\n`,
  ),
  'H-25 percent signs': [
    '%65vil.test:443',
    '%7Bapp%7D.allowed.test:443',
    'evil.test%00.allowed.test:443',
    'evil.test%2e:443',
    'allowed.test%3a443:443',
  ].map((target) => `CONNECT ${target} HTTP/1.1\r\nHost: x\r\n\r\n`),
  'H-25 percent signs in a URL': [
    'GET http://%65vil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n',
    'GET http://allowed.test%2f@evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n',
    'GET http://allowed.test%5c/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n',
  ],
  'H-26 controls and blanks': ['\0', '\t', '\r', '\x7f', '\xa0', ' ', '\x0b', '\xad', '\\'].map(
    (odd) => `CONNECT evil.test${odd}.allowed.test:443 HTTP/1.1\r\nHost: x\r\n\r\n`,
  ),
  'H-28 a CONNECT to a URL': [
    'CONNECT http://evil.test:443/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n',
    'CONNECT //allowed.test:443 HTTP/1.1\r\nHost: allowed.test\r\n\r\n',
    'CONNECT allowed.test:443/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n',
    'CONNECT / HTTP/1.1\r\nHost: allowed.test\r\n\r\n',
  ],
  'H-45 a head that is too long': [
    `GET http://allowed.test/${'a'.repeat(20_000)} HTTP/1.1\r\n${HOST}\r\n`,
    `${GET}X: ${'a'.repeat(20_000)}\r\n\r\n`,
    `CONNECT ${'a'.repeat(5_000)}:443 HTTP/1.1\r\n${HOST}\r\n`,
    `${GET}${'X: y\r\n'.repeat(5_000)}\r\n`,
  ],
  'H-48 a method in lower case': [
    'connect allowed.test:443 HTTP/1.1\r\nHost: allowed.test\r\n\r\n',
    'get http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n',
    'GET http://allowed.test/ http/1.1\r\nHost: allowed.test\r\n\r\n',
    'GET http://allowed.test/ HTTP/2.0\r\nHost: allowed.test\r\n\r\n',
    'GET http://allowed.test/\r\n\r\n',
  ],
  'H-49 another protocol': [
    '\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03',
    // A client of SOCKS 5 is served: test/proxy/serve-socks.ts.
    '\x04\x01\x01\xbb\x7f\0\0\x01\0',
    'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    'SSH-2.0-x\r\n',
    '\xf7\x00\xfe\x01',
  ],
}

for (const [title, rows] of Object.entries(REJECTED)) {
  void tap.test(`${title}: refused, and no whole request goes on`, async (t) => {
    const { proxy, upstream } = await openStand(t)
    for (const bytes of rows) {
      const shown = JSON.stringify(bytes.slice(0, 90))
      const client = await proxy.client(bytes)
      const answer = await client.answer()
      t.match(String(answer.status), /^(?:4\d\d|501|505)$/, shown)
      t.ok(answer.status !== 403 && answer.status !== 407, `${shown} is no matter of policy`)
      t.ok(answer.isFramed, `${shown}: the answer is whole`)
      await client.closed()
      t.equal(client.text.match(/HTTP\/1\.1 /g)?.length, 1, `${shown}: one answer alone`)
    }
    t.strictSame(upstream.received, [])
    t.strictSame(
      proxy.lookups.filter((name) => name !== 'allowed.test'),
      [],
    )
    const alive = await proxy.client(`${GET}\r\n`)
    t.equal((await alive.answer()).status, 200, 'the next client is served')
  })
}

void tap.test(
  'H-01 … H-11 behind a good request on the same connection: the first answer, then the refusal',
  async (t) => {
    const { proxy, upstream } = await openStand(t)
    const titles = ['H-01', 'H-03', 'H-04', 'H-05', 'H-06', 'H-08', 'H-09', 'H-11', 'H-12', 'H-20']
    const rows = Object.entries(REJECTED).flatMap(([title, list]) =>
      titles.some((id) => title.startsWith(id)) ? list : [],
    )
    for (const bytes of rows) {
      const client = await proxy.client(`${GET}\r\n${bytes}`)
      t.equal((await client.answer()).status, 200, JSON.stringify(bytes.slice(0, 90)))
      t.match(String((await client.answer()).status), /^(?:4\d\d|501)$/)
      await client.closed()
    }
    t.equal(upstream.received.length, rows.length, 'the first ones alone')
  },
)

void tap.test('H-01 … H-09 inside a tunnel: refused there too', async (t) => {
  const { proxy, upstream } = await openStand(t)
  const titles = ['H-01', 'H-03', 'H-04', 'H-05', 'H-06', 'H-08', 'H-09', 'H-11']
  for (const [title, rows] of Object.entries(REJECTED)) {
    if (!titles.some((id) => title.startsWith(id))) continue
    for (const bytes of rows) {
      const client = await proxy.tunnel('allowed.test:80', bytes)
      const answer = await client.answer()
      t.match(String(answer.status), /^(?:4\d\d|501)$/, JSON.stringify(bytes.slice(0, 90)))
      await client.closed()
    }
  }
  t.strictSame(upstream.received, [])
  await until('every upstream connection is closed', () => upstream.open === 0)
})

void tap.test(
  'H-47 an unfinished head is answered and closed in time, and so is silence',
  async (t) => {
    const { proxy } = await openStand(t, { limits: { headTimeoutMs: 200 } })
    const heads = [
      '',
      'GET http://allowed.test/ HTTP/1.1\r\nX: a',
      'C',
      'CONNECT allowed.test:443 HTTP/1.1\r\n',
    ]
    const slow = await proxy.client('GET http://allowed.test/ HTTP/1.1\r\nX: ')
    const drip = setInterval(() => slow.send('a'), 20)
    t.teardown(() => clearInterval(drip))
    const clients = [slow]
    for (const head of heads) clients.push(await proxy.client(head))
    for (const client of clients) {
      t.equal((await client.answer()).status, 408)
      await client.closed()
    }
    clearInterval(drip)
    await until('no connection is left', () => proxy.proxy.stats().connections === 0)

    const keptAlive = await proxy.client(`${GET}\r\n`)
    t.equal((await keptAlive.answer()).status, 200)
    keptAlive.send('GET http://allow')
    t.equal((await keptAlive.answer()).status, 408, 'the second head of a connection')
  },
)

void tap.test('H-49 four bytes and then silence', async (t) => {
  const { proxy } = await openStand(t, { limits: { headTimeoutMs: 80 } })
  const client = await proxy.client('\x00\x01\x02\x03')
  t.match(String((await client.answer()).status), /^4/)
  await client.closed()
})
