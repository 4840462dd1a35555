import tap from 'tap'
import { openProxy } from '../support/proxy.ts'

// Characters that look, or fold, like those of a name that is allowed.

void tap.test('no mapping of Unicode takes place: bytes beyond ASCII are no host', async (t) => {
  const proxy = await openProxy(t, { mode: 'open' })
  const hosts = [
    'ex\u00e4mple.test',
    'allowed\u3002test',
    'allowed\uff0etest',
    '\uff41llowed.test',
    'allowe\u0064\u200d.test',
    'allowed.te\u017ft',
    '\u212aelvin.test',
    '\u2488com',
    'allowed.test\u00ad',
  ]
  for (const host of hosts) {
    const bytes = Buffer.from(`CONNECT ${host}:443 HTTP/1.1\r\nHost: x\r\n\r\n`, 'utf8')
    t.equal((await (await proxy.client(bytes)).answer()).status, 400, JSON.stringify(host))
    const get = Buffer.from(`GET http://${host}/ HTTP/1.1\r\nHost: ${host}\r\n\r\n`, 'utf8')
    t.equal((await (await proxy.client(get)).answer()).status, 400)
  }
  t.strictSame(proxy.lookups, [])
})

void tap.test('an A-label that is none, or that spells another name, is no host', async (t) => {
  const proxy = await openProxy(t, { mode: 'open' })
  for (const host of ['xn--.test', 'xn--a.test', 'xn--a-0ea.xn--', 'XN--A.test']) {
    const client = await proxy.client(`CONNECT ${host}:443 HTTP/1.1\r\nHost: x\r\n\r\n`)
    t.equal((await client.answer()).status, 400, host)
  }
  t.strictSame(proxy.lookups, [])
})

void tap.test('a look-alike in A-labels is simply another name', async (t) => {
  const proxy = await openProxy(t, { rules: ['allowed.test'] })
  const client = await proxy.client('CONNECT xn--llowed-53d.test:443 HTTP/1.1\r\nHost: x\r\n\r\n')
  t.equal((await client.answer()).status, 403)
  t.strictSame(proxy.reasons, ['no-rule'])
})
