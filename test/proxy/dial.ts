import { type AddressInfo, createServer, Socket } from 'node:net'
import tap, { type Test } from 'tap'
import { decide } from '../../src/policy/decide.ts'
import { createDialer, type DialResult, DialWaiter } from '../../src/proxy/dial.ts'
import { DEFAULT_LIMITS, type Limits } from '../../src/proxy/limits.ts'
import { HostAddresses } from '../../src/proxy/local-addresses.ts'
import { LookupCache, type Resolver, type ResolverAnswer } from '../../src/proxy/resolver.ts'
import { chooseRelay, connectorOf } from '../../src/proxy/sockets.ts'
import { NOW, policyOf, targetOf, type Written } from '../support/policy-of.ts'
import { RELAY, until } from '../support/proxy.ts'
import { openUpstream } from '../support/upstream.ts'

interface DialParts {
  readonly resolver?: Resolver
  readonly answers?: readonly ResolverAnswer[]
  readonly rules?: readonly Written[]
  readonly target?: string
  readonly limits?: Partial<Limits>
  readonly local?: HostAddresses
}

async function dial(t: Test, parts: DialParts): Promise<DialResult> {
  const { answers = [], rules = ['a.test:*'], target = 'a.test:443', limits = {} } = parts
  const now = () => NOW
  const local = parts.local ?? new HostAddresses(now)
  const dialer = createDialer({
    lookups: new LookupCache(parts.resolver ?? (async () => answers), now),
    local,
    connect: connectorOf(chooseRelay(RELAY)),
    limits: () => ({ ...DEFAULT_LIMITS, ...limits }),
    now,
  })
  const policy = policyOf(rules)
  const asked = targetOf(target)
  const result = await dialer.dial({
    target: asked,
    decision: decide(policy, asked, NOW),
    policy,
    generation: 1,
    waiter: new DialWaiter(),
  })
  if (result.kind === 'connected') t.teardown(() => result.socket.destroy())
  return result
}

const given = (port: number, address = '127.0.0.1') => ({ address, port, given: true })

/** A port of this machine at which nobody listens. */
async function deadPort(host = '127.0.0.1'): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

void tap.test(
  'what is connected to is the address, half-open and with a listener for errors',
  async (t) => {
    const upstream = await openUpstream(t)
    const result = await dial(t, { answers: [given(upstream.port)] })
    if (result.kind !== 'connected') throw new Error(JSON.stringify(result))
    t.equal(result.address, '127.0.0.1')
    t.equal(result.socket.remotePort, upstream.port)
    t.ok(result.socket.allowHalfOpen)
    t.equal(result.socket.listenerCount('error'), 1)
    t.doesNotThrow(() => result.socket.emit('error', new Error('late')))
  },
)

void tap.test('each kind of address is vetted, at every dial', async (t) => {
  const rows: [title: string, parts: DialParts, reason: string][] = [
    ['private', { answers: [{ address: '10.0.0.5' }] }, 'special-address'],
    ['loopback', { answers: [{ address: '127.0.0.1' }] }, 'special-address'],
    ['loopback of IPv6', { answers: [{ address: '::1' }] }, 'special-address'],
    ['unspecified', { answers: [{ address: '0.0.0.0' }] }, 'special-address'],
    ['mapped', { answers: [{ address: '::ffff:10.0.0.5' }] }, 'special-address'],
    ['translated', { answers: [{ address: '64:ff9b::a00:5' }] }, 'special-address'],
    ['with a zone', { answers: [{ address: 'fe80::1%lo' }] }, 'special-address'],
    ['metadata', { answers: [{ address: '169.254.169.254' }] }, 'metadata-address'],
    [
      'metadata that the operator gave',
      { answers: [{ address: '169.254.169.254', given: true }] },
      'metadata-address',
    ],
    [
      'excluded by address',
      { answers: [{ address: '8.8.8.8' }], rules: ['a.test', '!8.8.8.0/24'] },
      'address-excluded',
    ],
    ['an address as target', { target: '127.0.0.1:443', rules: ['127.0.0.1'] }, 'special-address'],
  ]
  for (const [title, parts, reason] of rows) {
    const result = await dial(t, parts)
    t.match(result, { kind: 'failed', reason, timedOut: false, address: String }, title)
  }
})

void tap.test('own listeners are never dialled, given or not, by rule or not', async (t) => {
  const upstream = await openUpstream(t)
  const local = new HostAddresses(() => NOW)
  local.addListener(upstream.server)
  const { port } = upstream
  const exact = `127.0.0.1:${port}`
  for (const address of ['127.0.0.1', '0.0.0.0', '::ffff:127.0.0.1']) {
    const answers = [given(port, address)]
    t.match(
      await dial(t, { answers, local, rules: ['a.test:*', exact] }),
      { reason: 'loop' },
      address,
    )
  }
  t.match(await dial(t, { target: exact, rules: [exact], local }), { reason: 'loop' })
  t.equal(upstream.connections.length, 0)
})

void tap.test('of mixed answers the bad ones are dropped and the rest dialled', async (t) => {
  const upstream = await openUpstream(t)
  const bad = ['10.0.0.5', '169.254.169.254', 'fd00::1', '::1'].map((address) => ({ address }))
  const answers = [...bad, given(upstream.port), { address: '192.168.0.1' }]
  t.match(await dial(t, { answers }), { kind: 'connected', address: '127.0.0.1' })
})

void tap.test('if none is good, the first bad one is told', async (t) => {
  const answers = [{ address: '10.0.0.5' }, { address: '169.254.169.254' }]
  t.match(await dial(t, { answers }), { reason: 'special-address', address: '10.0.0.5' })
})

void tap.test('no address, a failing look-up, and a slow one', async (t) => {
  t.match(await dial(t, {}), { kind: 'failed', reason: 'unresolvable', timedOut: false })
  const failing = async () => Promise.reject(new Error('x'))
  t.match(await dial(t, { resolver: failing }), { reason: 'unresolvable', timedOut: false })
  const slow = () => new Promise<never>(() => undefined)
  const limits = { resolveTimeoutMs: 20 }
  t.match(await dial(t, { resolver: slow, limits }), { reason: 'unresolvable', timedOut: true })
})

void tap.test('a dead address first: the next one serves, at once', async (t) => {
  const upstream = await openUpstream(t)
  const dead = await deadPort()
  const answers = [given(dead), given(dead), given(upstream.port)]
  t.match(await dial(t, { answers }), { kind: 'connected' })
  const allDead = await dial(t, { answers: [given(dead), given(dead, '::1')] })
  t.match(allDead, { kind: 'failed', reason: 'dial', timedOut: false, detail: /ECONNREFUSED/ })
})

void tap.test('IPv6 goes first, then the families in turn', async (t) => {
  const six = await openUpstream(t, () => undefined, '::1')
  const four = await openUpstream(t)
  const answers = [given(four.port), given(six.port, '::1')]
  t.match(await dial(t, { answers }), { kind: 'connected', address: '::1' })
  const dead = await deadPort('::1')
  const both = [given(dead, '::1'), given(dead, '::1'), given(four.port)]
  t.match(await dial(t, { answers: both }), { kind: 'connected', address: '127.0.0.1' })
})

void tap.test(
  'an address that is silent: the next one is tried beside it, and the loser is closed',
  async (t) => {
    const connect = connectorOf(chooseRelay(RELAY))
    const upstream = await openUpstream(t)
    const silent = new Socket()
    let count = 0
    const now = () => NOW
    const dialer = createDialer({
      connect: (host) => (count++ === 0 ? silent : connect(host, upstream.port)),
      lookups: new LookupCache(async () => [given(1), given(2)], now),
      local: new HostAddresses(now),
      limits: () => DEFAULT_LIMITS,
      now,
    })
    const policy = policyOf(['a.test'])
    const target = targetOf('a.test')
    const decision = decide(policy, target, NOW)
    const waiter = new DialWaiter()
    const result = await dialer.dial({ target, decision, policy, generation: 1, waiter })
    if (result.kind !== 'connected') throw new Error(JSON.stringify(result))
    t.teardown(() => result.socket.destroy())
    t.equal(count, 2)
    t.ok(silent.destroyed)
  },
)

void tap.test(
  'nobody answers: the time is up for all attempts together, and none is left',
  async (t) => {
    const attempts: Socket[] = []
    const now = () => NOW
    const dialer = createDialer({
      connect() {
        const socket = new Socket()
        attempts.push(socket)
        return socket
      },
      lookups: new LookupCache(async () => [given(1), given(2), given(3)], now),
      local: new HostAddresses(now),
      limits: () => ({ ...DEFAULT_LIMITS, dialTimeoutMs: 60 }),
      now,
    })
    const policy = policyOf(['a.test'])
    const target = targetOf('a.test')
    const request = { target, decision: decide(policy, target, NOW), policy, generation: 1 }
    const result = await dialer.dial({ ...request, waiter: new DialWaiter() })
    t.match(result, { kind: 'failed', reason: 'dial', timedOut: true, address: '127.0.0.1' })
    t.ok(attempts.length >= 1)
    t.ok(attempts.every(({ destroyed }) => destroyed))

    const waiter = new DialWaiter()
    const before = attempts.length
    const left = dialer.dial({ ...request, waiter })
    await until('it has begun', () => attempts.length > before)
    waiter.leave()
    t.match(await left, { kind: 'failed', reason: 'dial', timedOut: false })
    t.ok(attempts.every(({ destroyed }) => destroyed))

    const count = attempts.length
    t.match(await dialer.dial({ ...request, waiter }), { kind: 'failed' })
    t.equal(attempts.length, count, 'nothing is dialled for a client that has left')
  },
)
