import tap from 'tap'
import type { ResolverAnswer } from '../../src/proxy/resolver.ts'
import { closedPort, openBlackHole } from '../support/black-hole.ts'
import { openProxy } from '../support/proxy.ts'
import { openUpstream } from '../support/upstream.ts'

const CONNECT = 'CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test\r\n\r\n'

void tap.test('RFC 8305: IPv6 first, then in turn, the next one beside a silent one', async (t) => {
  const six = await openUpstream(t, (connection) => connection.send('six'), '::1')
  const four = await openUpstream(t, (connection) => connection.send('four'))
  const silent = await openBlackHole(t, '::1')
  const at = (address: string, port: number): ResolverAnswer => ({ address, port, given: true })
  const dead4 = at('127.0.0.1', await closedPort())
  const dead6 = at('::1', await closedPort('::1'))
  // To wait for each of them would take more than six seconds.
  const manyDead = Array.from({ length: 10 }, () => [dead6, dead4]).flat()
  const good4 = at('127.0.0.1', four.port)
  const good6 = at('::1', six.port)
  const rows: readonly (readonly [string, readonly ResolverAnswer[], string, number, number])[] = [
    ['IPv6 wins from behind', [good4, good6], 'six', 0, 3_000],
    ['IPv4 alone', [good4], 'four', 0, 3_000],
    ['a refusal costs no waiting', [...manyDead, good4], 'four', 0, 3_000],
    ['a silent one costs one delay', [at('::1', silent.port), good4], 'four', 250, 3_000],
  ]
  for (const [title, answers, greeting, least, most] of rows) {
    const proxy = await openProxy(t, { audit: true, hosts: { 'allowed.test': answers } })
    const startedAt = performance.now()
    const client = await proxy.client(CONNECT)
    await client.until(new RegExp(`\\r\\n\\r\\n${greeting}$`))
    const took = performance.now() - startedAt
    t.ok(took >= least && took < most, `${title}: ${Math.round(took)} ms`)
    t.equal(proxy.of('network_allowed')[0]?.address, greeting === 'six' ? '::1' : '127.0.0.1')
    client.reset()
  }
  t.equal(six.connections.length + four.connections.length, 4, 'the losers are not kept')
})

void tap.test('a proxy on ::1 serves like one on 127.0.0.1', async (t) => {
  const six = await openUpstream(t, (connection) => connection.send('six'), '::1')
  const rules = ['allowed.test', `[::1]:${six.port}`]
  const proxy = await openProxy(t, { listenHost: '::1', rules, hosts: { 'allowed.test': six } })
  for (const target of ['allowed.test:443', `[::1]:${six.port}`, `[0:0:0:0:0:0:0:1]:${six.port}`]) {
    const client = await proxy.tunnel(target)
    await client.until('six')
  }
  const denied = await proxy.client(CONNECT.replace('allowed.test:443', '[::1]:1'))
  t.equal((await denied.answer()).status, 403)
})

void tap.test('all are dead: one 502 that names the last of them', async (t) => {
  const answers = [
    { address: '::1', port: await closedPort('::1'), given: true },
    { address: '127.0.0.1', port: await closedPort(), given: true },
  ]
  const proxy = await openProxy(t, { hosts: { 'allowed.test': answers } })
  t.equal((await (await proxy.client(CONNECT)).answer()).status, 502)
  t.match(proxy.of('network_blocked'), [{ reason: 'dial', address: '127.0.0.1' }])
})
