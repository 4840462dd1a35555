import { createServer } from 'node:net'
import tap from 'tap'
import { createEgressProxy } from '../../src/proxy/egress-proxy.ts'
import { chooseRelay } from '../../src/proxy/sockets.ts'
import { openProxy, policyWith, RELAY } from '../support/proxy.ts'

const policy = policyWith({})

void tap.test('beyond loopback, a token is needed, or the word that none is', async (t) => {
  const proxy = createEgressProxy({ policy })
  t.teardown(() => proxy.close())
  const strange = ['0.0.0.0', '::', '192.0.2.1', '::ffff:0.0.0.0', '', 'a.test', '128.0.0.1', '0']
  for (const host of strange) {
    await t.rejects(proxy.listen({ host, port: 0 }), { code: 'OPTION_INVALID' }, host)
  }
  for (const host of ['127.0.0.1', 'localhost', '::1', '127.0.0.2', '::ffff:127.0.0.1']) {
    t.ok((await proxy.listen({ host, port: 0 })).port > 0, host)
  }
  for (const options of [{ token: 'a'.repeat(64) }, { insecureNoAuth: true }]) {
    const open = createEgressProxy({ policy, ...options })
    t.equal((await open.listen({ host: '0.0.0.0', port: 0 })).host, '0.0.0.0')
    await open.close()
  }
})

void tap.test('options that cannot be used are refused when the proxy is made', async (t) => {
  const rows = [{ token: '' }, { token: 'a b' }, { limits: { maxTunnels: -1 } }]
  for (const options of rows) {
    t.throws(() => createEgressProxy({ policy, ...options }), { code: 'OPTION_INVALID' })
  }
  const limits = { maxTunnel: 1 } as object
  t.throws(() => createEgressProxy({ policy, limits }), { code: 'OPTION_INVALID' })
})

void tap.test('a parser that is too lenient is refused', async (t) => {
  const { versions } = process
  t.intercept(process, 'versions', { value: { ...versions, llhttp: '8.1.2' } })
  t.throws(() => createEgressProxy({ policy }), { code: 'RUNTIME_UNSUPPORTED' })
  t.intercept(process, 'versions', { value: { ...versions, llhttp: undefined } })
  t.throws(() => createEgressProxy({ policy }), { code: 'RUNTIME_UNSUPPORTED' })
})

void tap.test('a port that is taken, and what is no address of this machine', async (t) => {
  const server = createServer()
  t.teardown(() => server.close())
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no address')
  const proxy = createEgressProxy({ policy, token: 'a' })
  t.teardown(() => proxy.close())
  const taken = proxy.listen({ host: '127.0.0.1', port: address.port })
  await t.rejects(taken, { code: 'LISTEN_FAILED', message: /taken/, cause: Error })
  await t.rejects(proxy.listen({ host: '192.0.2.1', port: 0 }), { code: 'LISTEN_FAILED' })
  t.ok((await proxy.listen({ host: '127.0.0.1', port: 0 })).port > 0, 'it can still listen')
})

void tap.test(
  'closed is closed: every call answers with the first, and nothing opens again',
  async (t) => {
    const proxy = createEgressProxy({ policy })
    await proxy.listen({ host: '127.0.0.1', port: 0 })
    const first = proxy.close()
    t.equal(proxy.close({ drainTimeoutMs: 0 }), first)
    await first
    await t.rejects(proxy.listen({ host: '127.0.0.1', port: 0 }), { code: 'OPTION_INVALID' })
    t.throws(() => proxy.attach(createServer()), { code: 'OPTION_INVALID' })
  },
)

void tap.test('one that never listened closes at once', async (t) => {
  await createEgressProxy({ policy }).close()
  t.pass()
})

void tap.test('a proxy begins with its policy as generation 1, and says so', async (t) => {
  const { proxy, events } = await openProxy(t)
  t.match(events, [{ type: 'policy_loaded', data: { generation: 1, rules: 2, digest: String } }])
  t.strictSame(proxy.stats(), {
    generation: 1,
    connections: 0,
    tunnels: 0,
    lookups: 0,
    relay: chooseRelay(RELAY),
    allowed: 0,
    denied: {},
    bytesUp: 0,
    bytesDown: 0,
  })
  proxy.setPolicy(policyWith({ rules: ['a.test'] }))
  t.equal(proxy.stats().generation, 2)
  t.match(events[1], { type: 'policy_loaded', data: { generation: 2, rules: 1 } })
})

void tap.test(
  'a policy with limits that cannot be used leaves the one before in place',
  async (t) => {
    const { proxy, events } = await openProxy(t)
    const bad = { ...policyWith({}), limits: { dialTimeoutMs: -1 } }
    t.throws(() => proxy.setPolicy(bad), { code: 'OPTION_INVALID' })
    t.equal(proxy.stats().generation, 1)
    t.equal(events.length, 1)
  },
)

void tap.test('what stats answer is a copy', async (t) => {
  const { proxy } = await openProxy(t)
  Object.assign(proxy.stats().denied, { auth: 9 })
  t.strictSame(proxy.stats().denied, {})
})
