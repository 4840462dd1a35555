import { existsSync, readFileSync } from 'node:fs'
import tap from 'tap'
import { DEFAULT_LIMITS, joinLimits, resolveLimits } from '../../src/proxy/limits.ts'

void tap.test('the defaults, and that nothing silent is cut off by them', async (t) => {
  t.strictSame(DEFAULT_LIMITS, {
    maxHeadBytes: 16_384,
    headTimeoutMs: 10_000,
    resolveTimeoutMs: 5_000,
    dialTimeoutMs: 10_000,
    firstFlightTimeoutMs: 10_000,
    maxTunnels: 10_000,
    maxTunnelsPerClient: 0,
    drainTimeoutMs: 10_000,
    tunnelIdleMs: 0,
    responseIdleMs: 0,
  })
  const { maxTunnels, ...others } = resolveLimits({}, {})
  const { maxTunnels: most, ...defaults } = DEFAULT_LIMITS
  t.strictSame(others, defaults)
  t.ok(maxTunnels <= most)
})

void tap.test('the caller goes before the policy, and that before the default', async (t) => {
  const limits = resolveLimits(
    { headTimeoutMs: 1, tunnelIdleMs: 0 },
    { headTimeoutMs: 2, dialTimeoutMs: 3, tunnelIdleMs: 4 },
  )
  t.match(limits, { headTimeoutMs: 1, dialTimeoutMs: 3, tunnelIdleMs: 0, resolveTimeoutMs: 5_000 })
})

void tap.test('an undefined value is one that was not given', async (t) => {
  const given = { dialTimeoutMs: undefined } as unknown as Record<string, number>
  t.equal(resolveLimits(given, { dialTimeoutMs: 3 }).dialTimeoutMs, 3)
})

void tap.test('what is no limit, and what is no number of one, is refused by name', async (t) => {
  for (const name of ['maxtunnels', 'MaxTunnels', 'toString', 'constructor', '']) {
    t.throws(() => resolveLimits({ [name]: 1 }, {}), { code: 'OPTION_INVALID' }, name)
    t.throws(() => resolveLimits({}, { [name]: 1 }), { code: 'OPTION_INVALID' }, name)
  }
  for (const value of [-1, 1.5, NaN, Infinity, -Infinity, 2 ** 53]) {
    const wrong = { code: 'OPTION_INVALID', message: /dialTimeoutMs/ }
    t.throws(() => resolveLimits({ dialTimeoutMs: value }, {}), wrong, String(value))
    t.throws(() => resolveLimits({}, { dialTimeoutMs: value }), wrong, String(value))
  }
  for (const value of ['5', true, null, {}, [5]]) {
    const given = { dialTimeoutMs: value } as unknown as Record<string, number>
    t.throws(() => resolveLimits(given, {}), { code: 'OPTION_INVALID' }, JSON.stringify(value))
  }
})

void tap.test('the bound of a head cannot be turned off', async (t) => {
  t.throws(() => resolveLimits({ maxHeadBytes: 0 }, {}), { code: 'OPTION_INVALID' })
  t.equal(resolveLimits({ maxHeadBytes: 1 }, {}).maxHeadBytes, 1)
})

void tap.test('tunnels never take more than the descriptors bear, which 0 asks for', async (t) => {
  const most = resolveLimits({ maxTunnels: 0 }, {}).maxTunnels
  t.equal(resolveLimits({ maxTunnels: Number.MAX_SAFE_INTEGER }, {}).maxTunnels, most)
  t.equal(resolveLimits({ maxTunnels: 1 }, {}).maxTunnels, 1)
  if (!existsSync('/proc/self/limits')) return
  const soft = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1]
  if (soft !== undefined) t.ok(most * 2 < Number(soft), `${most} of ${soft}`)
})

void tap.test('what is wanted is known beside what one process bears', async (t) => {
  for (const maxTunnels of [0, 1, Number.MAX_SAFE_INTEGER]) {
    t.equal(joinLimits({ maxTunnels }, { maxTunnels: 5 }).maxTunnels, maxTunnels)
    t.equal(joinLimits({}, { maxTunnels }).maxTunnels, maxTunnels)
  }
  t.throws(() => joinLimits({ maxTunnels: -1 }, {}), { code: 'OPTION_INVALID' })
})

void tap.test('a time longer than a timer can wait is refused', async (t) => {
  // Node takes a delay of more than 2^31 - 1 ms for 1 ms.
  t.throws(() => resolveLimits({ dialTimeoutMs: 2 ** 31 }, {}), { code: 'OPTION_INVALID' })
  t.equal(resolveLimits({ dialTimeoutMs: 2 ** 31 - 1 }, {}).dialTimeoutMs, 2 ** 31 - 1)
  t.doesNotThrow(() => resolveLimits({ maxTunnels: 2 ** 31 }, {}))
})
