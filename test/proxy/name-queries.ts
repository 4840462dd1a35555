import tap from 'tap'
import { decide } from '../../src/policy/decide.ts'
import type { Mode } from '../../src/policy/policy.ts'
import { createEgressProxy } from '../../src/proxy/egress-proxy.ts'
import { BEFORE, NOW, policyOf, type Written } from '../support/policy-of.ts'
import { seeded } from '../support/random.ts'

const NAME = 'a.x.test'

type Rules = readonly [mode: Mode, rules: readonly Written[]]

function mayReach([mode, rules]: Rules): boolean {
  return createEgressProxy({ policy: policyOf(rules, mode), now: () => NOW }).mayReach(NAME)
}

/** The same by trying every port there is. */
function onSomePort([mode, rules]: Rules): boolean {
  const policy = policyOf(rules, mode)
  for (let port = 1; port <= 65_535; port++) {
    const host = { kind: 'name', name: NAME } as const
    const target = { scheme: 'tcp', host, port, via: 'transparent' } as const
    if (decide(policy, target, NOW).verdict === 'allow') return true
  }
  return false
}

void tap.test('a name is there if the policy allows some port of it', async (t) => {
  const rows: readonly [...Rules, boolean][] = [
    ['allowlist', ['a.x.test'], true],
    ['allowlist', ['*.x.test'], true],
    ['allowlist', ['b.x.test'], false],
    ['allowlist', ['a.x.test:1'], true],
    ['allowlist', ['a.x.test:65535'], true],
    ['allowlist', ['b.x.test:*', 'a.x.test:2000-2100'], true],
    ['allowlist', ['a.x.test:6150-6400', 'b.x.test:6000-6200'], true],
    ['allowlist', ['a.x.test:*', '!a.x.test:1-65534'], true],
    ['allowlist', ['a.x.test:*', '!a.x.test:*'], false],
    ['allowlist', [{ host: 'a.x.test', until: BEFORE }], false],
    ['denylist', ['!a.x.test:443', '!a.x.test:80', '!a.x.test:1'], true],
    ['denylist', ['!*.x.test:*'], false],
  ]
  for (const [mode, rules, expected] of rows) {
    t.equal(mayReach([mode, rules]), expected, `${mode} ${JSON.stringify(rules)}`)
  }
})

void tap.test('whatever the rules, it is what trying every port says', async (t) => {
  const random = seeded(7)
  const edges = [1, 2, 80, 442, 443, 444, 8000, 65_534, 65_535]
  for (let i = 0; i < 60; i++) {
    const rules = Array.from({ length: 1 + random.below(4) }, () => {
      const ends = [random.pick(edges), random.pick(edges)].toSorted((a, b) => a - b)
      const ports = random.chance(15) ? '*' : ends.join('-')
      return `${random.pick(['', '!'])}${random.pick([NAME, '*.x.test', 'b.x.test'])}:${ports}`
    })
    const mode = rules.every((rule) => rule.startsWith('!')) ? 'denylist' : 'allowlist'
    t.equal(mayReach([mode, rules]), onSomePort([mode, rules]), `${mode} ${rules.join(' ')}`)
  }
})
