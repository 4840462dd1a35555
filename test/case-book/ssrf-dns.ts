import tap from 'tap'
import type { ResolverAnswer } from '../../src/proxy/resolver.ts'
import { openBlackHole } from '../support/black-hole.ts'
import { valuesOf } from '../support/http-answer.ts'
import { openProxy, type Place, policyWith } from '../support/proxy.ts'
import { openHttpUpstream, openUpstream } from '../support/upstream.ts'

/** Cases whose outcome here is another one than the case book asks for. */
const NOT_AS_WRITTEN = {
  'S-20':
    'a name of the container host that resolves to a private address also needs `private: true`',
} as const

const CONNECT = 'CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n'
const GET = 'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n'
const UPGRADE = GET.replace(/\r\n$/, 'Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
const WAYS = [CONNECT, GET, UPGRADE]

const INNER: readonly (readonly [address: string, reason: string])[] = [
  ['10.0.0.5', 'special-address'],
  ['127.0.0.1', 'special-address'],
  ['127.1.2.3', 'special-address'],
  ['0.0.0.0', 'special-address'],
  ['169.254.169.254', 'metadata-address'],
  ['169.254.1.1', 'special-address'],
  ['172.17.0.1', 'special-address'],
  ['192.168.1.1', 'special-address'],
  ['100.64.0.1', 'special-address'],
  ['100.100.100.200', 'metadata-address'],
  ['168.63.129.16', 'metadata-address'],
  ['198.18.0.1', 'special-address'],
  ['224.0.0.1', 'special-address'],
  ['255.255.255.255', 'special-address'],
  ['::1', 'special-address'],
  ['::', 'special-address'],
  ['fd00::1', 'special-address'],
  ['fd00:ec2::254', 'metadata-address'],
  ['fe80::1', 'special-address'],
  ['fe80::1%lo', 'special-address'],
  ['::ffff:10.0.0.5', 'special-address'],
  ['::ffff:169.254.169.254', 'metadata-address'],
  ['::ffff:7f00:1', 'special-address'],
  ['64:ff9b::a00:5', 'special-address'],
  ['64:ff9b::a9fe:a9fe', 'metadata-address'],
  ['2002:7f00:1::', 'special-address'],
  ['::127.0.0.1', 'special-address'],
]

void tap.test(
  'S-01, S-18 and S-16 a name that leads to an inner address is not dialled, in any mode',
  async (t) => {
    for (const mode of ['allowlist', 'denylist', 'open'] as const) {
      let address = ''
      const policy = policyWith(mode === 'denylist' ? { mode, rules: ['!evil.test'] } : { mode })
      const proxy = await openProxy(t, {
        policy,
        hosts: { 'allowed.test': () => [{ address }] },
        now: ticking(),
      })
      for (const [one, reason] of INNER) {
        address = one
        for (const bytes of WAYS) {
          const client = await proxy.client(bytes)
          const answer = await client.answer()
          t.equal(answer.status, 403, `${mode}: ${one}`)
          t.strictSame(valuesOf(answer, 'x-iterion-reason'), [reason])
          client.reset()
        }
      }
      t.ok(
        proxy.of('network_blocked').every((block) => block.address !== undefined),
        'the event names it',
      )
    }
  },
)

void tap.test('S-01 the resolver answers with nonsense', async (t) => {
  for (const address of [
    '',
    'localhost',
    '127.0.0.1.',
    '0x7f.1',
    '2130706433',
    '127.1',
    '[::1]',
    ' 10.0.0.1',
  ]) {
    const proxy = await openProxy(t, { hosts: { 'allowed.test': [{ address }] } })
    const answer = await (await proxy.client(CONNECT)).answer()
    t.equal(answer.status, 502, JSON.stringify(address))
    t.strictSame(proxy.reasons, ['unresolvable'])
  }
})

void tap.test('S-01 a port that is none is no answer, and no crash', async (t) => {
  const hole = await openBlackHole(t)
  for (const port of [0, -1, 65_536, 1.5, NaN]) {
    const answers = [
      { address: hole.host, port: hole.port, given: true },
      { address: '127.0.0.1', port, given: true },
    ]
    const proxy = await openProxy(t, {
      hosts: { 'allowed.test': answers },
      limits: { dialTimeoutMs: 50 },
    })
    t.equal((await (await proxy.client(CONNECT)).answer()).status, 504, String(port))
  }
})

void tap.test('S-02 what was vetted is dialled; a second look-up changes nothing', async (t) => {
  const first = await openHttpUpstream(t)
  const second = await openHttpUpstream(t)
  let asked = 0
  const place: Place = () => [
    { address: '127.0.0.1', port: (asked++ === 0 ? first : second).port, given: true },
  ]
  const proxy = await openProxy(t, { hosts: { 'allowed.test': place }, now: () => 0 })
  for (const bytes of [GET, GET]) await (await proxy.client(bytes)).answer()
  const tunnel = await proxy.client(CONNECT.replaceAll(':443', ':80'))
  await tunnel.answer({ connect: true })
  t.equal(asked, 1, 'asked once')
  t.equal(second.connections.length, 0)
})

void tap.test(
  'S-02 a name that turns inward after a good answer is refused on the next connection',
  async (t) => {
    const upstream = await openHttpUpstream(
      t,
      () => 'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok',
    )
    let answers: readonly ResolverAnswer[] = [
      { address: '127.0.0.1', port: upstream.port, given: true },
    ]
    const proxy = await openProxy(t, { hosts: { 'allowed.test': () => answers }, now: ticking() })
    const client = await proxy.client(GET)
    t.equal((await client.answer()).status, 200)
    answers = [{ address: '169.254.169.254' }]
    client.send(GET)
    t.equal((await client.answer()).status, 403)
    t.equal((await (await proxy.client(CONNECT)).answer()).status, 403)
  },
)

void tap.test('S-10 and S-11 a look-up that fails is no denial', async (t) => {
  const failing = (code: string) => () => {
    throw Object.assign(new Error(`${code} secret.internal`), { code })
  }
  const rows: readonly (readonly [string, Place | undefined, number])[] = [
    ['NXDOMAIN', failing('ENOTFOUND'), 502],
    ['SERVFAIL', failing('EAI_AGAIN'), 502],
    ['no resolver', failing('ECONNREFUSED'), 502],
    ['an empty list', [], 502],
    ['no such name', undefined, 502],
    ['silence', () => new Promise<never>(() => undefined), 504],
  ]
  for (const [title, place, status] of rows) {
    for (const bytes of WAYS) {
      const hosts = place === undefined ? {} : { 'allowed.test': place }
      const proxy = await openProxy(t, { hosts, limits: { resolveTimeoutMs: 40 } })
      const client = await proxy.client(bytes)
      const answer = await client.answer()
      t.equal(answer.status, status, title)
      t.strictSame(valuesOf(answer, 'x-iterion-reason'), ['unresolvable'])
      t.match(valuesOf(answer, 'proxy-status')[0], status === 504 ? /dns_timeout/ : /dns_error/)
      t.notOk(client.text.includes('secret.internal'))
      t.strictSame(proxy.reasons, ['unresolvable'])
      t.strictSame(proxy.of('internal_error'), [])
    }
  }
})

void tap.test('S-10 a denied name is never looked up', async (t) => {
  const proxy = await openProxy(t, { rules: ['allowed.test:443'] })
  for (const host of ['evil.test:443', 'allowed.test:25', 'x.allowed.test:443', '10.0.0.1:443']) {
    const answer = await (await proxy.client(CONNECT.replaceAll('allowed.test:443', host))).answer()
    t.equal(answer.status, 403)
  }
  t.strictSame(proxy.lookups, [])
})

void tap.test(
  'S-20 an exception for one port of the container host opens that port, under that name',
  async (t) => {
    const upstream = await openUpstream(t)
    const rules = [{ host: 'host.docker.internal', ports: [11434], private: true }]
    const inner = { 'host.docker.internal': [{ address: '172.17.0.1' }] }
    const refused = await openProxy(t, { rules: ['host.docker.internal:11434'], hosts: inner })
    const connect = (target: string) => `CONNECT ${target} HTTP/1.1\r\nHost: x\r\n\r\n`
    const plain = await (await refused.client(connect('host.docker.internal:11434'))).answer()
    t.equal(plain.status, 403, NOT_AS_WRITTEN['S-20'])

    const proxy = await openProxy(t, { rules, hosts: { 'host.docker.internal': upstream } })
    const rows = [
      ['host.docker.internal:11434', 200],
      ['host.docker.internal:22', 403],
      ['host.docker.internal:5432', 403],
      ['172.17.0.1:11434', 403],
      ['gateway.docker.internal:11434', 403],
    ] as const
    for (const [target, status] of rows) {
      const client = await proxy.client(connect(target))
      t.equal((await client.answer({ connect: true })).status, status, target)
    }
  },
)

void tap.test(
  'private: true opens private addresses, and neither this machine nor metadata',
  async (t) => {
    const rules = [{ host: 'allowed.test', private: true }]
    for (const address of ['127.0.0.1', '::1', '169.254.169.254', 'fd00:ec2::254', '169.254.1.1']) {
      const proxy = await openProxy(t, { rules, hosts: { 'allowed.test': [{ address }] } })
      t.equal((await (await proxy.client(CONNECT)).answer()).status, 403, address)
    }
  },
)

void tap.test(
  'an exclusion by range holds for what a name resolves to, given by hand or not',
  async (t) => {
    const upstream = await openUpstream(t)
    for (const given of [true, false]) {
      const rules = ['allowed.test', '127.0.0.1:443', '!127.0.0.0/8']
      const hosts = { 'allowed.test': [{ address: '127.0.0.1', port: upstream.port, given }] }
      const proxy = await openProxy(t, { rules, hosts })
      t.equal((await (await proxy.client(CONNECT)).answer()).status, 403)
    }
    t.equal(upstream.connections.length, 0)
  },
)

/** A clock that moves two seconds at each look, so that no look-up is joined to an older one. */
function ticking(): () => number {
  let now = 0
  return () => (now += 2_000)
}
