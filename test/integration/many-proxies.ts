import tap from 'tap'
import { openProxy } from '../support/proxy.ts'
import { openHttpUpstream } from '../support/upstream.ts'

void tap.test('ten proxies in one process know nothing of each other', async (t) => {
  const upstream = await openHttpUpstream(t)
  const proxies = await Promise.all(
    Array.from({ length: 10 }, (_, i) =>
      openProxy(t, {
        rules: [`n${i}.test`],
        hosts: Object.fromEntries(Array.from({ length: 10 }, (__, j) => [`n${j}.test`, upstream])),
        token: `token-${i}`,
      }),
    ),
  )
  const ask = async (from: number, host: number, token: number) => {
    const client = await proxies[from]?.client(
      `GET http://n${host}.test/ HTTP/1.1\r\nHost: n${host}.test\r\nProxy-Authorization: Bearer token-${token}\r\n\r\n`,
    )
    return (await client?.answer())?.status
  }
  for (let i = 0; i < 10; i++) {
    const next = (i + 1) % 10
    t.strictSame(
      [await ask(i, i, i), await ask(i, next, i), await ask(i, i, next)],
      [200, 403, 407],
      `proxy ${i}`,
    )
  }
  const [first, second] = proxies
  await first?.proxy.close({ drainTimeoutMs: 0 })
  t.equal(await ask(1, 1, 1), 200, 'one that closes takes no other with it')
  t.strictSame(second?.proxy.stats().denied, { 'no-rule': 1, auth: 1 })
  t.equal(second?.proxy.stats().allowed, 2)
})

void tap.test('a chain of two proxies is no loop', async (t) => {
  const upstream = await openHttpUpstream(t)
  const inner = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const outer = await openProxy(t, { hosts: { 'allowed.test': inner } })
  const tunnel = await outer.tunnel(
    'allowed.test:3128',
    'CONNECT allowed.test:80 HTTP/1.1\r\nHost: allowed.test:80\r\n\r\n',
  )
  t.equal((await tunnel.answer()).status, 400, 'a CONNECT inside a tunnel is not for us to pass on')
  const plain = await outer.client(
    'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n',
  )
  t.equal((await plain.answer()).status, 400, 'nor is one proxy the origin of the other')
})
