import tap from 'tap'
import { openProxy } from '../support/proxy.ts'
import { fieldsOf, openHttpUpstream } from '../support/upstream.ts'

// The URL, or the tunnel, says one host and the Host field another one.

void tap.test('plain, inside a tunnel, on a later request and with an upgrade', async (t) => {
  const upstream = await openHttpUpstream(t)
  const proxy = await openProxy(t, {
    hosts: { 'allowed.test': upstream, 'a.allowed.test': upstream },
  })
  const others = [
    'evil.test',
    'a.allowed.test',
    'allowed.test.evil.test',
    'allowed.test:81',
    '127.0.0.1',
    '[::1]',
    'allowed.test:',
  ]
  const upgrade = 'Connection: upgrade\r\nUpgrade: websocket\r\n'
  for (const other of others) {
    for (const more of ['', upgrade]) {
      const plain = await proxy.client(
        `GET http://allowed.test/ HTTP/1.1\r\nHost: ${other}\r\n${more}\r\n`,
      )
      t.equal((await plain.answer()).status, 400, other)
      const tunnel = await proxy.tunnel(
        'allowed.test:80',
        `GET / HTTP/1.1\r\nHost: ${other}\r\n${more}\r\n`,
      )
      t.equal((await tunnel.answer()).status, 400, `${other} in a tunnel`)
      await tunnel.closed()
    }
    const later = await proxy.tunnel(
      'allowed.test:80',
      'GET /1 HTTP/1.1\r\nHost: allowed.test\r\n\r\n',
    )
    t.equal((await later.answer()).status, 200)
    later.send(`GET /2 HTTP/1.1\r\nHost: ${other}\r\n\r\n`)
    t.equal((await later.answer()).status, 400, `${other} on the second request`)
  }
  t.ok(upstream.received.every((one) => one.line.startsWith('GET /1 ')))
  t.ok(upstream.received.every((one) => fieldsOf(one, 'host').join() === 'allowed.test'))
  t.ok(proxy.reasons.every((reason) => reason === 'host-mismatch'))
})

void tap.test('the Host of a CONNECT does not matter: the target decides', async (t) => {
  const upstream = await openHttpUpstream(t)
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const good = await proxy.client('CONNECT allowed.test:80 HTTP/1.1\r\nHost: evil.test\r\n\r\n')
  t.equal((await good.answer({ connect: true })).status, 200)
  const denied = await proxy.client('CONNECT evil.test:80 HTTP/1.1\r\nHost: allowed.test\r\n\r\n')
  t.equal((await denied.answer()).status, 403)
})
