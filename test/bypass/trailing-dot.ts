import tap from 'tap'
import { openProxy } from '../support/proxy.ts'
import { fieldsOf, openHttpUpstream } from '../support/upstream.ts'

// The root dot makes another text of the same name.

void tap.test('a name with its root dot is the name, for rules, Host and pool alike', async (t) => {
  const upstream = await openHttpUpstream(t)
  const proxy = await openProxy(t, {
    mode: 'denylist',
    rules: ['!evil.test'],
    hosts: { 'allowed.test': upstream },
  })
  for (const host of ['evil.test.', 'EVIL.TEST.', 'evil.test']) {
    for (const bytes of [
      `CONNECT ${host}:443 HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
      `GET http://${host}/ HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
      `GET http://${host}:80/ HTTP/1.1\r\nHost: evil.test\r\n\r\n`,
    ]) {
      t.equal((await (await proxy.client(bytes)).answer()).status, 403, bytes.slice(0, 40))
    }
  }
  const client = await proxy.client()
  for (const host of ['allowed.test.', 'allowed.test']) {
    client.send(`GET http://${host}/ HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    t.equal((await client.answer()).status, 200)
  }
  t.strictSame(
    upstream.received.map((one) => fieldsOf(one, 'host')[0]),
    ['allowed.test', 'allowed.test'],
  )
  t.equal(upstream.connections.length, 1, 'one pool')
  t.strictSame(new Set(proxy.lookups), new Set(['allowed.test']))
})

void tap.test('two dots, a dot in front, and a dot behind an address are no hosts', async (t) => {
  const proxy = await openProxy(t, { mode: 'open' })
  for (const host of [
    'evil.test..',
    '.evil.test',
    'evil..test',
    '.',
    '..',
    '127.0.0.1.',
    '0x7f.1.',
    '[::1].',
  ]) {
    const client = await proxy.client(`CONNECT ${host}:443 HTTP/1.1\r\nHost: x\r\n\r\n`)
    t.equal((await client.answer()).status, 400, host)
  }
  t.strictSame(proxy.lookups, [])
})
