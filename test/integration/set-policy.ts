import tap from 'tap'
import type { ResolverAnswer } from '../../src/proxy/resolver.ts'
import { ESTABLISHED, openProxy, policyWith } from '../support/proxy.ts'
import { OK, openHttpUpstream, openUpstream } from '../support/upstream.ts'

const GET = 'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n'
const CONNECT = 'CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test\r\n\r\n'
const INSIDE = 'GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n'

void tap.test(
  'a policy holds for requests from now on, on old connections too; what is open goes on',
  async (t) => {
    const echo = await openUpstream(t, (connection) => connection.socket.pipe(connection.socket))
    const upstream = await openHttpUpstream(t, ({ line }) =>
      line.includes('/hang') ? undefined : OK,
    )
    const hosts = { 'allowed.test': upstream, 'echo.allowed.test': echo }
    const proxy = await openProxy(t, { hosts })
    const raw = await proxy.tunnel('echo.allowed.test:443', '\0one')
    const http = await proxy.tunnel('allowed.test:80', INSIDE)
    t.equal((await http.answer()).status, 200)
    const kept = await proxy.client(GET)
    t.equal((await kept.answer()).status, 200)
    const hanging = await proxy.client(GET.replace('test/ ', 'test/hang '))
    const { connection } = await upstream.request(2)

    const policy = policyWith({ rules: ['other.test'] })
    proxy.proxy.setPolicy(policy)
    t.equal(proxy.proxy.stats().generation, 2)
    t.match(proxy.of('policy_loaded').at(-1), { generation: 2, digest: policy.digest, rules: 1 })
    raw.send('two')
    await raw.until(`${ESTABLISHED}\0onetwo`)
    upstream.connections[connection]?.send(OK)
    t.equal((await hanging.answer()).status, 200, 'under way')
    http.send(INSIDE)
    t.equal((await http.answer()).status, 403, 'a request inside an open tunnel')
    kept.send(GET)
    t.equal((await kept.answer()).status, 403, 'a request on an open connection')
    t.equal((await (await proxy.client(CONNECT)).answer()).status, 403)

    proxy.proxy.setPolicy(policyWith({}))
    kept.send(GET)
    t.equal((await kept.answer()).status, 200)
  },
)

void tap.test(
  'connections that an older policy vetted serve no request of a newer one',
  async (t) => {
    const upstream = await openHttpUpstream(t)
    const answers: ResolverAnswer[] = [{ address: '127.0.0.1', port: upstream.port, given: true }]
    const proxy = await openProxy(t, { hosts: { 'allowed.test': answers } })
    const tunnel = await proxy.tunnel('allowed.test:80', INSIDE)
    t.equal((await tunnel.answer()).status, 200)
    const waiting = await proxy.tunnel('allowed.test:80')
    const kept = await proxy.client(GET)
    t.equal((await kept.answer()).status, 200)
    proxy.proxy.setPolicy(policyWith({ rules: ['allowed.test:*', '!127.0.0.0/8'] }))
    for (const [client, bytes] of [
      [tunnel, INSIDE],
      [waiting, INSIDE],
      [kept, GET],
    ] as const) {
      client.send(bytes)
      t.equal((await client.answer()).status, 403)
    }
    t.strictSame(proxy.reasons, ['address-excluded', 'address-excluded', 'address-excluded'])
    t.equal(upstream.received.length, 2)
  },
)

void tap.test('the limits of a new policy hold as well', async (t) => {
  const upstream = await openHttpUpstream(t)
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const long = GET.replace(/\r\n$/, `X: ${'a'.repeat(3_000)}\r\n\r\n`)
  t.equal((await (await proxy.client(long)).answer()).status, 200)
  proxy.proxy.setPolicy({ ...policyWith({}), limits: { maxHeadBytes: 2_000, headTimeoutMs: 200 } })
  t.equal((await (await proxy.client(long)).answer()).status, 431)
  t.equal((await (await proxy.client('GET ')).answer()).status, 408)
  proxy.proxy.setPolicy({ ...policyWith({}), limits: { maxHeadBytes: 100_000 } })
  const longer = GET.replace(/\r\n$/, `X: ${'a'.repeat(50_000)}\r\n\r\n`)
  t.equal((await (await proxy.client(longer)).answer()).status, 200)
})

void tap.test('quiet hosts are denied as ever, and marked', async (t) => {
  const proxy = await openProxy(t, { rules: ['allowed.test'], quiet: ['**.noise.test'] })
  for (const host of ['a.noise.test', 'loud.test']) {
    const client = await proxy.client(`CONNECT ${host}:443 HTTP/1.1\r\nHost: x\r\n\r\n`)
    t.equal((await client.answer()).status, 403)
  }
  const blocked = proxy.events.filter(({ type }) => type === 'network_blocked')
  t.strictSame(
    blocked.map(({ quiet }) => quiet === true),
    [true, false],
  )
})
