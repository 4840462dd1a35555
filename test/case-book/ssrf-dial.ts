import { readdirSync } from 'node:fs'
import tap from 'tap'
import type { ResolverAnswer } from '../../src/proxy/resolver.ts'
import { closedPort, openBlackHole } from '../support/black-hole.ts'
import { openProxy, type Place, until } from '../support/proxy.ts'
import { openUpstream } from '../support/upstream.ts'

const CONNECT = 'CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n'
const GET = 'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n'
const UPGRADE = GET.replace(/\r\n$/, 'Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
const WAYS = [CONNECT, GET, UPGRADE]

void tap.test('S-13 equal look-ups are one; their number is bounded', async (t) => {
  const waiting: (() => void)[] = []
  const place: Place = () =>
    new Promise((_, reject) => {
      waiting.push(() => reject(Object.assign(new Error('again'), { code: 'EAI_AGAIN' })))
    })
  const hosts: Record<string, Place> = { 'allowed.test': place }
  for (let i = 0; i < 600; i++) hosts[`n${i}.allowed.test`] = place
  const proxy = await openProxy(t, { hosts, limits: { resolveTimeoutMs: 0 } })
  const same = await Promise.all(Array.from({ length: 40 }, () => proxy.client(CONNECT)))
  await until('the look-up is under way', () => proxy.proxy.stats().lookups === 1)
  const others = await Promise.all(
    Array.from({ length: 560 }, (_, i) =>
      proxy.client(CONNECT.replaceAll('allowed.test', `n${i}.allowed.test`)),
    ),
  )
  await until('some are turned away', () => proxy.reasons.length === 49)
  t.equal(proxy.proxy.stats().lookups, 512)
  t.equal(proxy.lookups.filter((name) => name === 'allowed.test').length, 1)
  for (const wake of waiting) wake()
  const answers = await Promise.all([...same, ...others].map((client) => client.answer()))
  t.strictSame(new Set(answers.map(({ status }) => status)), new Set([502, 504]))
  t.equal(proxy.proxy.stats().lookups, 0)
})

void tap.test('S-14 one family is dead: the other one is used', async (t) => {
  const four = await openUpstream(t, (connection) => connection.send('four'))
  const six = await openUpstream(t, (connection) => connection.send('six'), '::1')
  const hole = await openBlackHole(t, '::1')
  const refusedSix = { address: '::1', port: await closedPort('::1'), given: true }
  const refusedFour = { address: '127.0.0.1', port: await closedPort(), given: true }
  const good = ({ host, port }: { host: string; port: number }) => ({
    address: host,
    port,
    given: true,
  })
  const rows: readonly [string, ResolverAnswer[], string][] = [
    ['both live: IPv6 first', [good(four), good(six)], 'six'],
    ['IPv6 refuses', [refusedSix, good(four)], 'four'],
    ['IPv4 refuses', [refusedFour, good(six)], 'six'],
    ['IPv6 is silent', [good(hole), good(four)], 'four'],
    ['IPv6 is a private address', [{ address: 'fd00::1' }, good(four)], 'four'],
  ]
  for (const [title, answers, greeting] of rows) {
    const proxy = await openProxy(t, { hosts: { 'allowed.test': answers } })
    const text = await (await proxy.client(CONNECT)).until(new RegExp(`\\r\\n\\r\\n${greeting}$`))
    t.ok(text, title)
  }
})

void tap.test('S-14 the whole dial has one deadline', async (t) => {
  const hole = await openBlackHole(t)
  const dead = { address: hole.host, port: hole.port, given: true }
  const proxy = await openProxy(t, {
    hosts: { 'allowed.test': [dead, dead, dead] },
    limits: { dialTimeoutMs: 80 },
  })
  for (const bytes of WAYS) {
    const answer = await (await proxy.client(bytes)).answer()
    t.equal(answer.status, 504)
  }
  t.strictSame(proxy.reasons, ['dial', 'dial', 'dial'])
})

void tap.test(
  'S-15 two hundred times past an address that refuses: no descriptor is lost',
  async (t) => {
    const upstream = await openUpstream(t, (connection) => connection.socket.destroy())
    const answers = [
      { address: '127.0.0.1', port: await closedPort(), given: true },
      { address: '127.0.0.1', port: upstream.port, given: true },
    ]
    const proxy = await openProxy(t, { hosts: { 'allowed.test': answers } })
    const count = () => readdirSync('/proc/self/fd').length
    const before = count()
    for (let round = 0; round < 8; round++) {
      const clients = await Promise.all(Array.from({ length: 25 }, () => proxy.client(CONNECT)))
      const statuses = await Promise.all(
        clients.map(async (client) => (await client.answer({ connect: true })).status),
      )
      t.ok(statuses.every((status) => status === 200))
      await Promise.all(clients.map((client) => client.closed()))
    }
    await until('all descriptors are back', () => count() <= before + 2)
  },
)
