import tap from 'tap'
import { formatIp } from '../../src/policy/address.ts'
import { EgressError } from '../../src/errors.ts'
import { LookupCache, type Resolver, type ResolverAnswer } from '../../src/proxy/resolver.ts'

interface Stand {
  readonly cache: LookupCache
  readonly asked: string[]
  /** The time that the cache sees; set it. */
  time: number
}

function openStand(resolver: Resolver): Stand {
  const asked: string[] = []
  const stand: Stand = {
    time: 0,
    asked,
    cache: new LookupCache(
      (name, port) => {
        asked.push(`${name}:${port}`)
        return resolver(name, port)
      },
      () => stand.time,
    ),
  }
  return stand
}

const ask = async (stand: Stand, name = 'a.test', port = 443, generation = 1) => {
  const found = await stand.cache.resolve(name, port, generation, 100)
  return found.map(({ ip, port: dialled, given }) => `${formatIp(ip)} ${dialled} ${given}`)
}

const ONE: readonly ResolverAnswer[] = [{ address: '192.0.2.1' }]

void tap.test('answers come in the order of the resolver, read and complete', async (t) => {
  const stand = openStand(async () => [
    { address: '192.0.2.1' },
    { address: '2001:DB8:0::1', port: 8443 },
    { address: '::ffff:192.0.2.2', given: true },
    { address: 'fe80::1%eth0' },
  ])
  t.strictSame(await ask(stand), [
    '192.0.2.1 443 false',
    '2001:db8::1 8443 false',
    '192.0.2.2 443 true',
    'fe80::1 443 false',
  ])
})

void tap.test('an answer that is no address or no port is none', async (t) => {
  const odd: ResolverAnswer[] = [
    ...[
      '',
      'a.test',
      '192.0.2',
      '192.0.2.256',
      '0x7f.1',
      '017.0.0.1',
      ':::',
      '[::1]',
      ' 1.2.3.4',
    ].map((address) => ({ address })),
    ...[0, -1, 65_536, 1.5, NaN].map((port) => ({ address: '192.0.2.1', port })),
  ]
  await t.rejects(ask(openStand(async () => odd)), { code: 'RESOLVE_FAILED' })
  t.strictSame(await ask(openStand(async () => [...odd, ...ONE])), ['192.0.2.1 443 false'])
  await t.rejects(ask(openStand(async () => [])), { code: 'RESOLVE_FAILED' })
})

void tap.test('what a resolver throws is a failure that names the name', async (t) => {
  const failure = Object.assign(new Error('x'), { code: 'ENOTFOUND' })
  const throws: Resolver[] = [
    async () => Promise.reject(failure),
    () => {
      throw failure
    },
    async () => Promise.reject(new Error('no code')),
    async () => Promise.reject(new TypeError('a bug')),
  ]
  for (const resolver of throws) {
    const wanted = { code: 'RESOLVE_FAILED', message: /a\.test/, cause: Error }
    await t.rejects(ask(openStand(resolver)), wanted)
  }
  const own = new EgressError('RESOLVE_TIMEOUT', 'mine')
  await t.rejects(ask(openStand(async () => Promise.reject(own))), own, 'an error of ours stays')
})

void tap.test(
  'equal questions are joined and kept for a second, by port and generation',
  async (t) => {
    const stand = openStand(async () => ONE)
    await Promise.all([ask(stand), ask(stand), ask(stand)])
    t.equal(stand.asked.length, 1, 'joined')
    stand.time = 999
    await ask(stand)
    t.equal(stand.asked.length, 1, 'kept')
    await ask(stand, 'a.test', 80)
    await ask(stand, 'b.test')
    await ask(stand, 'a.test', 443, 2)
    t.equal(stand.asked.length, 4)
    stand.time = 1_000
    await ask(stand)
    t.equal(stand.asked.length, 5, 'forgotten')
  },
)

void tap.test('a second counts from the answer, not from the question', async (t) => {
  let answer: (found: typeof ONE) => void = () => undefined
  const stand = openStand(() => new Promise((resolve) => (answer = resolve)))
  const first = ask(stand)
  stand.time = 5_000
  answer(ONE)
  await first
  await ask(stand)
  t.equal(stand.asked.length, 1)
})

void tap.test(
  'a failure is shared by those who wait for it, and kept for nobody else',
  async (t) => {
    let count = 0
    const stand = openStand(async () => (++count === 1 ? [] : ONE))
    const failed = await Promise.allSettled([ask(stand), ask(stand)])
    t.strictSame(
      failed.map(({ status }) => status),
      ['rejected', 'rejected'],
    )
    const broken = openStand(async () => (++count === 2 ? Promise.reject(new Error('x')) : ONE))
    await t.rejects(ask(broken))
    t.strictSame(await ask(broken), ['192.0.2.1 443 false'])
  },
)

void tap.test('each caller waits no longer than it says', async (t) => {
  let answer: (found: typeof ONE) => void = () => undefined
  const stand = openStand(() => new Promise((resolve) => (answer = resolve)))
  const patient = stand.cache.resolve('a.test', 443, 1, 0)
  await t.rejects(stand.cache.resolve('a.test', 443, 1, 20), { code: 'RESOLVE_TIMEOUT' })
  t.equal(stand.cache.pending, 1, 'it is still under way')
  answer(ONE)
  t.equal((await patient).length, 1)
  t.equal(stand.cache.pending, 0)
})

void tap.test(
  '512 look-ups at a time; more are refused at once, equal ones still join',
  async (t) => {
    const answers: (() => void)[] = []
    const stand = openStand(() => new Promise((resolve) => answers.push(() => resolve(ONE))))
    const waiting = Array.from({ length: 512 }, (_, i) =>
      stand.cache.resolve(`n${i}.test`, 443, 1, 0),
    )
    t.equal(stand.cache.pending, 512)
    await t.rejects(stand.cache.resolve('more.test', 443, 1, 0), { code: 'RESOLVE_TIMEOUT' })
    const joined = stand.cache.resolve('n7.test', 443, 1, 0)
    t.equal(stand.asked.length, 512)
    for (const answer of answers) answer()
    await Promise.all([...waiting, joined])
    t.equal(stand.cache.pending, 0)
    const late = stand.cache.resolve('more.test', 443, 1, 0)
    answers.at(-1)?.()
    t.equal((await late).length, 1, 'there is room again')
  },
)

void tap.test('the cache does not grow without bound', async (t) => {
  const stand = openStand(async () => ONE)
  for (let i = 0; i < 10_100; i++) await ask(stand, `n${i}.test`)
  await ask(stand, 'n10099.test')
  t.equal(stand.asked.length, 10_100, 'the youngest are known')
  await ask(stand, 'n0.test')
  t.equal(stand.asked.length, 10_101, 'the oldest is not')
})
