import tap from 'tap'
import type { ResolverAnswer } from '../../src/proxy/resolver.ts'
import { openProxy } from '../support/proxy.ts'
import { openHttpUpstream } from '../support/upstream.ts'

// A name is good when it is checked and leads inward when it is used.

const GET = 'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n'
const CONNECT = 'CONNECT allowed.test:80 HTTP/1.1\r\nHost: allowed.test\r\n\r\n'

void tap.test('each dial is vetted, and what was vetted is what is dialled', async (t) => {
  const upstream = await openHttpUpstream(
    t,
    () => 'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok',
  )
  const good: ResolverAnswer = { address: '127.0.0.1', port: upstream.port, given: true }
  const inner = ['169.254.169.254', '10.0.0.5', '127.0.0.1', '::1', 'fd00::1'].map((address) => ({
    address,
  }))
  let next: readonly ResolverAnswer[] = [good]
  let now = 0
  const proxy = await openProxy(t, {
    hosts: { 'allowed.test': () => next },
    now: () => (now += 3_000),
  })
  for (const bad of inner) {
    next = [good]
    t.equal((await (await proxy.client(GET)).answer()).status, 200)
    next = [bad]
    for (const bytes of [GET, CONNECT]) {
      t.equal((await (await proxy.client(bytes)).answer()).status, 403, bad.address)
    }
    next = [bad, good, bad]
    t.equal(
      (await (await proxy.client(GET)).answer()).status,
      200,
      'the bad ones among several are dropped',
    )
  }
})

void tap.test('inside a tunnel, a new connection is vetted like the first', async (t) => {
  const upstream = await openHttpUpstream(
    t,
    () => 'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok',
  )
  let next: readonly ResolverAnswer[] = [{ address: '127.0.0.1', port: upstream.port, given: true }]
  let now = 0
  const proxy = await openProxy(t, {
    hosts: { 'allowed.test': () => next },
    now: () => (now += 3_000),
  })
  const tunnel = await proxy.tunnel('allowed.test:80')
  const get = 'GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n'
  tunnel.send(get)
  t.equal((await tunnel.answer()).status, 200)
  next = [{ address: '10.0.0.5' }]
  tunnel.send(get)
  t.equal((await tunnel.answer()).status, 403)
  t.equal(upstream.received.length, 1)
})
