import tap from 'tap'
import { openProxy } from '../support/proxy.ts'
import { openHttpUpstream } from '../support/upstream.ts'

// RFC 9110 7.6.1: what `Connection` names ends at this hop, in the head and behind the body.

const MESSAGE =
  'Connection: x-secret\r\nCONNECTION: close, X-Other\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n' +
  'X-Secret: 1\r\nx-other: 2\r\nX-Kept: 3\r\nX-SECRET: 4\r\n\r\n'

void tap.test('a trailer that Connection names goes no further, either way', async (t) => {
  const upstream = await openHttpUpstream(t, () => `HTTP/1.1 200 OK\r\n${MESSAGE}`)
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const post = (url: string) => `POST ${url} HTTP/1.1\r\nHost: allowed.test\r\n${MESSAGE}`
  const plain = await proxy.client(post('http://allowed.test/'))
  t.strictSame((await plain.answer()).trailers, [['x-kept', '3']])
  const tunnel = await proxy.tunnel('allowed.test:80', post('/'))
  t.strictSame((await tunnel.answer()).trailers, [['x-kept', '3']])
  for (const { body } of upstream.received) t.equal(body, '2\r\nok\r\n0\r\nX-Kept: 3\r\n\r\n')
  t.equal(upstream.received.length, 2)
})

void tap.test('naming them does not take framing or Host away either', async (t) => {
  const upstream = await openHttpUpstream(t)
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const client = await proxy.client(
    'POST http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nConnection: host, trailer, transfer-encoding\r\n' +
      'Trailer: Host\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nHost: evil.test\r\nX-Kept: 1\r\n\r\n',
  )
  t.equal((await client.answer()).status, 200)
  const request = await upstream.request()
  t.equal(request.body, '0\r\nX-Kept: 1\r\n\r\n')
  t.notOk(upstream.connections[0]?.text.includes('evil'))
})
