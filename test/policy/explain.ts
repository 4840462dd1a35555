import tap from 'tap'
import { compilePolicy } from '../../src/policy/compile.ts'
import { decide, type Decision } from '../../src/policy/decide.ts'
import { explain, suggestRule } from '../../src/policy/explain.ts'
import { matchesPattern } from '../../src/policy/pattern.ts'
import { DEFAULT_PORTS } from '../../src/policy/parse.ts'
import type { Mode } from '../../src/policy/policy.ts'
import { portsContain } from '../../src/policy/ports.ts'
import { isLive, parseRule, type Rule, type RuleSource } from '../../src/policy/rule.ts'
import { isBadTarget, parseTarget, type Target } from '../../src/policy/target.ts'
import { seeded, seedOf, type Random } from '../support/random.ts'
import { AFTER, BEFORE, NOW, policyOf, ruleOf, targetOf } from '../support/policy-of.ts'

void tap.test(
  'the trace has every rule that matches the host, in order, with its outcome',
  async (t) => {
    const rules = [
      '**.a.test',
      { host: 'x.a.test', until: BEFORE },
      'x.a.test:22',
      'b.test',
      '!x.a.test:443',
      '1.2.3.4',
    ]
    const { decision, trace, suggestion } = explain(policyOf(rules), targetOf('x.a.test'), NOW)
    t.match(decision, { verdict: 'deny', reason: 'excluded' })
    t.strictSame(
      trace.map(({ rule, meaning, outcome }) => [rule.text, meaning, outcome]),
      [
        [
          '**.a.test',
          'any name below a.test, at any depth, not a.test itself, port 80, 443',
          'overruled',
        ],
        ['x.a.test', 'the name x.a.test, no sub-names, port 80, 443', 'expired'],
        ['x.a.test:22', 'the name x.a.test, no sub-names, port 22', 'port'],
        ['!x.a.test:443', 'the name x.a.test, no sub-names, port 443', 'won'],
      ],
    )
    t.equal(suggestion, '"x.a.test:443"')
  },
)

void tap.test('an allowed target and a malformed one have no suggestion', async (t) => {
  const policy = policyOf(['a.test'])
  t.equal(explain(policy, targetOf('a.test'), NOW).suggestion, undefined)
  t.match(explain(policy, parseTarget('a b'), NOW), {
    decision: { reason: 'bad-target' },
    trace: [],
    suggestion: undefined,
  })
})

void tap.test('where the floor keeps a target closed, no rule has won', async (t) => {
  const { decision, trace } = explain(policyOf(['0.0.0.0/0']), targetOf('10.0.0.1'), NOW)
  t.equal(decision.reason, 'special-address')
  t.match(trace, [{ meaning: 'every address of 0.0.0.0/0, port 80, 443', outcome: 'floor' }])
  const local = explain(
    policyOf([{ host: '**', ports: ['*'], wide: true }]),
    targetOf('localhost'),
    NOW,
  )
  t.match(local.trace, [{ meaning: 'any name, no addresses, every port', outcome: 'floor' }])
})

void tap.test(
  'the exclusion of the address inside another is in the trace, and cannot be lifted by a rule',
  async (t) => {
    const policy = policyOf(['64:ff9b::/96', '!8.8.8.8'])
    const { trace, suggestion } = explain(policy, targetOf('[64:ff9b::808:808]'), NOW)
    t.match(trace, [{ outcome: 'overruled' }, { rule: { text: '!8.8.8.8' }, outcome: 'won' }])
    t.equal(suggestion, undefined)
  },
)

void tap.test('what comes after the decision has a suggestion where a rule can help', async (t) => {
  const deny = (reason: string) => ({ verdict: 'deny', reason }) as Decision
  const name = targetOf('a.test:8200')
  t.equal(
    suggestRule(deny('special-address'), name),
    '{ host: "a.test", ports: [8200], private: true }',
  )
  t.equal(suggestRule(deny('special-address'), targetOf('[fd00::1]:22')), '"[fd00::1]:22"')
  for (const reason of [
    'unresolvable',
    'dial',
    'sni',
    'auth',
    'limit',
    'loop',
    'draining',
    'address-excluded',
  ]) {
    t.equal(suggestRule(deny(reason), name), undefined, reason)
  }
})

const LABELS = ['a', 'b', 'ab', 'localhost', 'test']
const ADDRESSES = [
  '1.2.3.4',
  '1.2.3.5',
  '10.0.0.1',
  '127.0.0.1',
  '169.254.169.254',
  '2001:db9::1',
  'fd00::1',
  '64:ff9b::102:304',
  '64:ff9b::a00:1',
  '5f00::1',
]
const RANGES = [
  '1.2.3.0/24',
  '0.0.0.0/0',
  '10.0.0.0/8',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '::/0',
  'fc00::/7',
  '64:ff9b::/96',
  '2001:db9::/32',
  '8.0.0.0/6',
]

function randomName(random: Random): string {
  return Array.from({ length: 1 + random.below(3) }, () => random.pick(LABELS)).join('.')
}

function randomRule(random: Random): RuleSource {
  const until = random.pick([undefined, undefined, undefined, BEFORE, AFTER])
  const ports = random.pick([undefined, undefined, [80], [443], ['80-443'], ['*'], [22, 443]])
  const bang = random.chance(35) ? '!' : ''
  const more = { ...(until && { until }), ...(ports && { ports }) }
  if (random.chance(40))
    return { host: `${bang}${random.pick([...ADDRESSES, ...RANGES])}`, ...more }
  const labels = randomName(random).split('.')
  const stars = labels.map((label) => {
    if (random.chance(20)) return '*'
    return random.chance(15) ? `${label.slice(0, 1)}*` : label
  })
  if (random.chance(25)) stars.unshift('**')
  const host = random.chance(4) ? '**' : stars.join('.')
  const isExact = !host.includes('*') && bang === ''
  return {
    host: `${bang}${host}`,
    wide: true,
    ...more,
    ...(isExact && random.chance(20) && { private: true }),
  }
}

function randomTarget(random: Random): Target {
  const port = random.pick([80, 443, 443, 22, 8080])
  if (random.chance(60)) return targetOf(`${randomName(random)}:${port}`)
  const address = random.pick(ADDRESSES)
  return targetOf(address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`)
}

function readRule(source: RuleSource, line: number): Rule {
  const rule = parseRule(source, DEFAULT_PORTS, { source: 'policy.yaml', line, column: 1 })
  if ('length' in rule) throw new Error(`${JSON.stringify(source)}: ${rule[0]?.message}`)
  return rule
}

void tap.test(
  'decide and explain give the same winner over random policies, and what is suggested allows',
  async (t) => {
    const seed = seedOf(41)
    const random = seeded(seed)
    const reasons = new Map<string, number>()
    for (let round = 0; round < 2500; round++) {
      const sources = Array.from({ length: random.below(25) }, () => randomRule(random))
      const mode = random.pick<Mode>(['allowlist', 'allowlist', 'open'])
      const rules = sources.map(readRule)
      const policy = compilePolicy({ mode, rules })
      for (let i = 0; i < 12; i++) {
        const target = randomTarget(random)
        const where = `${JSON.stringify(target)} in ${JSON.stringify(sources)} (SEED=${seed})`
        const { decision, trace, suggestion } = explain(policy, target, NOW)
        reasons.set(decision.reason, (reasons.get(decision.reason) ?? 0) + 1)
        const winner = policy.rules.findLast(
          (rule) =>
            matchesPattern(rule.pattern, target.host) &&
            portsContain(rule.ports, target.port) &&
            isLive(rule, NOW),
        )
        const won = trace.filter(({ outcome }) => outcome === 'won').map(({ rule }) => rule)
        if (decision.reason === 'rule') {
          if (decision.rule !== winner || won[0] !== winner || winner?.effect !== 'allow')
            t.fail(`allowed by another rule: ${where}`)
        } else if (decision.reason === 'excluded') {
          if (won[0] !== decision.rule || decision.rule?.effect !== 'exclude')
            t.fail(`excluded by another rule: ${where}`)
          const isOutside = decision.rule && matchesPattern(decision.rule.pattern, target.host)
          if (isOutside && decision.rule !== winner) t.fail(`excluded by an earlier rule: ${where}`)
        } else {
          if (won.length > 0) t.fail(`a rule has won and did not decide: ${where}`)
          const isFloor = decision.reason.endsWith('-address')
          if (winner && !isFloor) t.fail(`a rule matched and did not decide: ${where}`)
        }
        if (won.length > 1) t.fail(`two rules have won: ${where}`)
        if (suggestion === undefined) continue
        const source: RuleSource = suggestion.startsWith('{')
          ? { host: /"([^"]*)"/.exec(suggestion)?.[1] ?? '', ports: [target.port], private: true }
          : { host: JSON.parse(suggestion) as string }
        const extended = compilePolicy({ mode, rules: [...rules, readRule(source, 99)] })
        const again = decide(extended, target, NOW)
        if (again.verdict !== 'allow') t.fail(`${suggestion} does not allow: ${where}`)
      }
    }
    const kinds = [
      'rule',
      'excluded',
      'port',
      'expired',
      'no-rule',
      'ip-literal',
      'mode-default',
      'special-address',
      'metadata-address',
    ]
    for (const reason of kinds)
      t.ok((reasons.get(reason) ?? 0) > 50, `${reason} came ${reasons.get(reason)} times`)
  },
)

void tap.test('what a policy denies by name is denied for its every spelling', async (t) => {
  const policy = policyOf(['**.a.test', '!b.a.test'])
  for (const text of ['b.a.test', 'B.A.TEST', 'b.a.test.']) {
    const target = parseTarget(text)
    t.notOk(isBadTarget(target))
    t.equal(explain(policy, target, NOW).decision.reason, 'excluded', text)
  }
  t.equal(ruleOf('!b.a.test').effect, 'exclude')
})
