import tap from 'tap'
import { openProxy } from '../support/proxy.ts'
import { fieldsOf, openHttpUpstream } from '../support/upstream.ts'

// Fields behind a body that would have been refused, or mean more, in front of it.

const UNSAFE = [
  'Host: evil.test',
  'Via: 1.1 x',
  'Connection: close',
  'Upgrade: h2c',
  'Proxy-Authorization: Basic eA==',
  'Authorization: Bearer x',
  'Cookie: a=b',
  'Set-Cookie: a=b',
  'Content-Encoding: gzip',
  'Content-Type: text/html',
  'Content-Range: bytes 0-1/2',
  'Trailer: x',
  'TE: trailers',
  'Location: http://evil.test/',
  'Expect: 100-continue',
  'Cache-Control: public',
  'Max-Forwards: 0',
  'Range: bytes=0-',
  'WWW-Authenticate: Basic',
  'Proxy: http://evil.test',
  'Proxy-Connection: keep-alive',
  'Keep-Alive: timeout=9',
  'Age: 1',
  'Vary: *',
  'Date: x',
  'Expires: x',
]

void tap.test('unsafe trailers are dropped, the others passed on, both ways', async (t) => {
  const trailers = `X-Before: 1\r\n${UNSAFE.join('\r\n')}\r\nX-After: 2\r\n`
  const upstream = await openHttpUpstream(
    t,
    () => `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n${trailers}\r\n`,
  )
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const client = await proxy.client(
    `POST http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n${trailers}\r\n`,
  )
  const answer = await client.answer()
  t.strictSame(answer.trailers, [
    ['x-before', '1'],
    ['x-after', '2'],
  ])
  const request = await upstream.request()
  t.equal(request.body, '2\r\nhi\r\n0\r\nX-Before: 1\r\nX-After: 2\r\n\r\n')
  t.strictSame(fieldsOf(request, 'host'), ['allowed.test'])
})

void tap.test('an odd end of the chunks is refused', async (t) => {
  const upstream = await openHttpUpstream(t)
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const ends = [
    '0\r\nX: 1\r\n Y: 2\r\n\r\n',
    '0\r\nX : 1\r\n\r\n',
    '0\r\nX: a\rb\r\n\r\n',
    '0\r\nX: 1\n\n',
    '0\n\n',
    '0 \r\n\r\n',
    '00x\r\n\r\n',
    '-0\r\n\r\n',
    '+0\r\n\r\n',
    'fffffffffffffffff\r\n',
    '2\r\nabc\r\n0\r\n\r\n',
    '0;a\nb\r\n\r\n',
  ]
  for (const end of ends) {
    const client = await proxy.client(
      `POST http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nTransfer-Encoding: chunked\r\n\r\n${end}`,
    )
    t.equal((await client.answer()).status, 400, JSON.stringify(end))
    await client.closed()
  }
  t.equal(upstream.received.length, 0)
})
