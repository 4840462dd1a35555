import tap from 'tap'
import { openProxy } from '../support/proxy.ts'
import { fieldsOf, openHttpUpstream, openUpstream } from '../support/upstream.ts'

// HTTP/2 in clear text carries its own host in every request, where nobody looks.

const PREFACE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0'

void tap.test('the preface in a tunnel is refused under enforce, in whatever pieces', async (t) => {
  const upstream = await openUpstream(t)
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  for (const pieces of [[PREFACE], PREFACE.split(''), [PREFACE.slice(0, 3), PREFACE.slice(3)]]) {
    const client = await proxy.tunnel('allowed.test:80')
    await client.sendPieces(pieces, 0)
    await client.closed()
  }
  t.ok(upstream.connections.every(({ text }) => text === ''))
  t.strictSame(proxy.reasons, ['not-tls', 'not-tls', 'not-tls'])
  const off = await openProxy(t, { hosts: { 'allowed.test': upstream }, tls: { sni: 'off' } })
  await off.tunnel('allowed.test:80', PREFACE)
  await (await upstream.connection(3)).until(PREFACE.length)
})

void tap.test('the preface to the proxy itself, first or second, is answered', async (t) => {
  const upstream = await openHttpUpstream(t)
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const first = await proxy.client(PREFACE)
  t.equal((await first.answer()).status, 400)
  const get = 'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n'
  const second = await proxy.client(get)
  await second.answer()
  second.send(PREFACE)
  t.equal((await second.answer()).status, 400)
  await second.closed()
})

void tap.test('an upgrade to h2c is taken out and the request served without it', async (t) => {
  const upstream = await openHttpUpstream(t)
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const fields =
    'Host: allowed.test\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk\r\n'
  const rows = ['h2c', 'H2C', 'h2c, websocket', 'websocket, h2c', 'TLS/1.2']
  for (const [i, protocol] of rows.entries()) {
    const bytes = `${fields}Upgrade: ${protocol}\r\n\r\n`
    const plain = await proxy.client(`GET http://allowed.test/ HTTP/1.1\r\n${bytes}${PREFACE}`)
    t.equal((await plain.answer()).status, 200, protocol)
    await plain.closed()
    const tunnel = await proxy.tunnel('allowed.test:80', `GET / HTTP/1.1\r\n${bytes}${PREFACE}`)
    t.equal((await tunnel.answer()).status, 200, 'inside a tunnel')
    await tunnel.closed()
    for (const request of [await upstream.request(2 * i), await upstream.request(2 * i + 1)]) {
      t.strictSame(fieldsOf(request, 'upgrade'), [])
      t.strictSame(fieldsOf(request, 'http2-settings'), [])
    }
  }
  t.equal(upstream.received.length, 2 * rows.length, 'what stood behind is no request')
})
