import tap from 'tap'
import { openProxy } from '../support/proxy.ts'
import { fieldsOf, openHttpUpstream } from '../support/upstream.ts'

// `Connection` names fields that end at this hop. A client may name what must not end.

void tap.test(
  'naming Host, framing or the token changes neither routing nor framing nor authentication',
  async (t) => {
    const token = 'c'.repeat(64)
    const upstream = await openHttpUpstream(t)
    const proxy = await openProxy(t, { token, hosts: { 'allowed.test': upstream } })
    const credential = `Proxy-Authorization: Bearer ${token}\r\n`
    const rows = [
      'Host',
      'host, x',
      'Content-Length',
      'content-length, close',
      'Proxy-Authorization',
      'Via',
      'Connection',
    ]
    for (const [i, nominated] of rows.entries()) {
      const client = await proxy.client(
        `POST http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n${credential}Connection: ${nominated}\r\nContent-Length: 5\r\n\r\nhello`,
      )
      t.equal((await client.answer()).status, 200, nominated)
      const request = await upstream.request(i)
      t.strictSame(fieldsOf(request, 'host'), ['allowed.test'])
      t.strictSame(fieldsOf(request, 'content-length'), ['5'])
      t.equal(request.body, 'hello')
      t.equal(fieldsOf(request, 'via').length, 1)
      t.strictSame(fieldsOf(request, 'proxy-authorization'), [])
    }
    const chunked = await proxy.client(
      `POST http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n${credential}Connection: transfer-encoding\r\n` +
        'Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n',
    )
    t.equal((await chunked.answer()).status, 200)
    const request = await upstream.request(rows.length)
    t.strictSame(fieldsOf(request, 'transfer-encoding'), ['chunked'])
    t.equal(request.body, '5\r\nhello\r\n0\r\n\r\n')
    const naked = await proxy.client(
      'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nConnection: proxy-authorization\r\n\r\n',
    )
    t.equal((await naked.answer()).status, 407)
  },
)

void tap.test(
  'named fields go, on every Connection line, in any case, and an answer is treated alike',
  async (t) => {
    const upstream = await openHttpUpstream(
      t,
      () =>
        'HTTP/1.1 200 OK\r\nConnection: X-One\r\nX-One: 1\r\nconnection: content-length, x-TWO\r\nX-Two: 2\r\nContent-Length: 2\r\n\r\nok',
    )
    const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
    const client = await proxy.client(
      'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nConnection: X-One\r\nX-One: 1\r\nCONNECTION: ,x-two , \r\nX-Two: 2\r\nX-Three: 3\r\n\r\n',
    )
    const answer = await client.answer()
    t.equal(answer.body, 'ok')
    t.notOk(answer.fields.some(([name]) => name.startsWith('x-')))
    const request = await upstream.request()
    t.strictSame(
      request.fields.map(([name]) => name).filter((name) => name.startsWith('x-')),
      ['x-three'],
    )
  },
)
