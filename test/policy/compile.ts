import tap from 'tap'
import { DEFAULT_DOOR } from '../../src/policy/door-range.ts'
import { EgressError } from '../../src/errors.ts'
import { compilePolicy, type PolicyParts } from '../../src/policy/compile.ts'
import { decide } from '../../src/policy/decide.ts'
import { AFTER, NOW, policyOf, ruleOf, targetOf, type Written } from '../support/policy-of.ts'
import { cpuTimeMs } from '../support/cpu-time.ts'

const rulesOf = (rules: readonly Written[]) => rules.map((rule, i) => ruleOf(rule, i + 1))

function problemsOf(rules: readonly Written[]): string[] {
  try {
    policyOf(rules, 'denylist')
    return []
  } catch (error) {
    if (!(error instanceof EgressError)) throw error
    return error.problems.map(({ at, message }) => `${at?.line}: ${message}`)
  }
}

void tap.test(
  'a policy has the usual TLS settings and no limits unless they are given',
  async (t) => {
    const policy = compilePolicy({ mode: 'open', rules: [] })
    t.match(policy, {
      mode: 'open',
      rules: [],
      tls: { sni: 'enforce', require: false },
      limits: {},
    })
    t.ok(Object.isFrozen(policy))
    const tls = { sni: 'off', require: true } as const
    t.match(compilePolicy({ mode: 'open', rules: [], tls, limits: { maxTunnels: 5 } }), {
      tls,
      limits: { maxTunnels: 5 },
    })
  },
)

void tap.test('quiet patterns are kept apart from what decides', async (t) => {
  const policy = compilePolicy({ mode: 'open', rules: [], quiet: rulesOf(['!x.test']) })
  t.equal(policy.quiet.buckets('x.test').length, 1)
  t.equal(policy.quiet.buckets('y.test').length, 0)
  t.equal(decide(policy, targetOf('x.test'), NOW).verdict, 'allow')
})

void tap.test(
  'the digest changes with everything that decides, and with nothing else',
  async (t) => {
    const base: PolicyParts = { mode: 'allowlist', rules: rulesOf(['a.test', 'b.test']) }
    const digest = (parts: Partial<PolicyParts>) => compilePolicy({ ...base, ...parts }).digest
    const first = digest({})
    t.match(first, /^[\da-f]{64}$/)
    t.equal(digest({ rules: rulesOf(['A.test.', { host: 'b.test', note: 'why' }]) }), first)
    t.equal(digest({ limits: {}, quiet: [], door: DEFAULT_DOOR }), first)
    const others: Partial<PolicyParts>[] = [
      { mode: 'open' },
      { rules: rulesOf(['b.test', 'a.test']) },
      { rules: rulesOf(['a.test', '!b.test']) },
      { rules: rulesOf(['a.test', 'b.test:443']) },
      { rules: rulesOf(['a.test', { host: 'b.test', ports: [80, 443] }]) },
      { rules: rulesOf(['a.test', { host: 'b.test', until: AFTER }]) },
      { rules: rulesOf(['a.test', { host: 'b.test', private: true }]) },
      { quiet: rulesOf(['!b.test']) },
      { tls: { sni: 'off', require: false } },
      { limits: { maxTunnels: 1 } },
      { door: { syntheticRange: { first: { family: 4, words: [0xc612_0000] }, bits: 15 } } },
    ]
    const digests = others.map(digest)
    t.equal(new Set([first, ...digests]).size, others.length + 1)
  },
)

void tap.test('in denylist mode a rule that carves out nothing is refused', async (t) => {
  const table: [name: string, rules: Written[], lines: number[]][] = [
    ['nothing is excluded before it', ['a.test', '!a.test'], [1]],
    ['something else is excluded', ['!b.test', 'a.test'], [2]],
    ['an exception to a wildcard', ['!**.a.test', 'x.a.test'], []],
    ['the apex is not below itself', ['!**.a.test', 'a.test'], [2]],
    ['a wildcard that cuts into an exact exclusion', ['!x.a.test', '*.a.test'], []],
    ['a wildcard that cuts into another', ['!**.x.a.test', '**.a.test'], []],
    ['a wildcard beside another', ['!*.x.a.test', '*.a.test'], [2]],
    ['a glob that meets another', ['!a*.x.test', '*b.x.test'], []],
    ['a glob that meets none', ['!a*.x.test', 'b*.x.test'], [2]],
    ['a range within a range', ['!1.0.0.0/8', '1.2.3.0/24'], []],
    ['a range around an address', ['!1.2.3.4', '1.2.3.0/24'], []],
    ['an address in a range', ['!1.0.0.0/8', '1.2.3.4'], []],
    ['an address in none', ['!2.0.0.0/8', '1.2.3.4'], [2]],
    ['IPv6 within IPv6', ['!2001:db9::/32', '[2001:db9::1]:443'], []],
    ['another port', ['!a.test:22', 'a.test:80'], [2]],
    ['ports that meet', ['!a.test:1-100', 'a.test'], []],
    ['a rule that opens a private range', ['10.0.0.0/8'], []],
    ['a rule for everything opens nothing', ['0.0.0.0/0'], [1]],
    ['a rule that opens metadata', ['169.254.169.254:80'], []],
    ['a rule with private: true', [{ host: 'a.test', private: true }], []],
    ['a rule that opens a local name', ['localhost:3000', 'host.docker.internal:11434'], []],
    ['a wildcard opens no local name', ['*.docker.internal'], [1]],
    ['several at once', ['a.test', '!c.test', 'b.test'], [1, 3]],
  ]
  for (const [name, rules, lines] of table) {
    t.strictSame(
      problemsOf(rules).map((text) => Number.parseInt(text, 10)),
      lines,
      name,
    )
  }
  t.strictSame(problemsOf(['a.test:22']), [
    '1: "a.test:22" allows what denylist mode allows anyway',
  ])
})

void tap.test('the refusal says how to deny instead', async (t) => {
  t.throws(() => policyOf(['a.test'], 'denylist'), {
    code: 'POLICY_RULE',
    problems: [
      { correction: '"!a.test" to deny it', at: { file: 'policy.yaml', line: 1, column: 5 } },
    ],
  })
})

void tap.test('many exclusions and many exceptions take no quadratic time', async (t) => {
  const exclusions = Array.from({ length: 30_000 }, (_, i) => `!**.n${i}.test`)
  const exceptions = Array.from({ length: 1000 }, (_, i) => `*.ok.n${29_999 - i}.test`)
  const rules = rulesOf([...exclusions, ...exceptions])
  const started = cpuTimeMs()
  compilePolicy({ mode: 'denylist', rules })
  t.ok(cpuTimeMs() - started < 9000)
})

void tap.test('a rule for an address that stands for names is refused', async (t) => {
  const door = { syntheticRange: { first: { family: 4, words: [0x0a00_0000] }, bits: 9 } } as const
  const compile = (rule: string) =>
    compilePolicy({ mode: 'allowlist', rules: rulesOf([rule]), door })
  t.throws(() => compile('10.1.2.3:443'), {
    code: 'POLICY_RULE',
    message: /lies in door\.syntheticRange 10\.0\.0\.0\/9, whose addresses stand for names/,
  })
  for (const rule of ['10.128.0.1:443', '!10.1.2.3', '10.0.0.0/8:443', 'a.test']) {
    t.doesNotThrow(() => compile(rule), rule)
  }
})
