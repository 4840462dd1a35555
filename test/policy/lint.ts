import tap from 'tap'
import { formatWarning, lintRules } from '../../src/policy/lint.ts'
import { AFTER, BEFORE, NOW, ruleOf, type Written } from '../support/policy-of.ts'
import { cpuTimeMs } from '../support/cpu-time.ts'

function lint(rules: readonly Written[]): string[] {
  return lintRules(
    rules.map((rule, i) => ruleOf(rule, i + 1)),
    NOW,
  ).map(({ kind, rule }) => `${rule.origin.line} ${kind}`)
}

const TABLE: [name: string, rules: Written[], warnings: string[]][] = [
  ['nothing is wrong', ['a.test', '!b.test', '*.c.test'], []],
  ['a rule given twice', ['a.test', 'A.test.'], ['1 duplicate']],
  [
    'the same with its ports spelt out',
    ['a.test', { host: 'a.test', ports: [80, 443] }],
    ['1 duplicate'],
  ],
  ['a later rule covers it', ['x.a.test', '**.a.test'], ['1 never-wins']],
  ['a later exclusion covers it', ['x.a.test', '!**.a.test'], ['1 never-wins']],
  ['an exclusion that a later rule covers', ['!x.a.test:443', '**.a.test'], ['1 never-wins']],
  ['an exclusion of more ports than the later rule', ['!x.a.test', '**.a.test'], []],
  ['the opposite given later', ['a.test', '!a.test'], ['1 never-wins']],
  ['a later rule with fewer ports', ['a.test', 'a.test:443'], []],
  ['a later rule that runs out', ['a.test', { host: 'a.test', until: AFTER }], []],
  ['a rule that ran out', [{ host: 'a.test', until: BEFORE }], ['1 expired']],
  ['a zone with rented names', ['*.github.io'], ['1 rented-zone']],
  ['an exclusion of a rented zone', ['!*.github.io'], []],
  ['everything', [{ host: '**', wide: true }], ['1 rented-zone']],
  [
    'two warnings about one rule',
    ['*.github.io', '**.github.io'],
    ['1 rented-zone', '1 never-wins', '2 rented-zone'],
  ],
  ['an address in a later range', ['1.2.3.4', '1.2.3.0/24'], ['1 never-wins']],
  ['a private range under a wider rule still opens the floor', ['10.0.0.0/8', '0.0.0.0/0'], []],
  ['a private address under its range does not', ['10.1.2.3', '10.0.0.0/8'], ['1 never-wins']],
  ['an exact address and port opens our own host', ['1.2.3.4:443', '1.2.3.0/24:443'], []],
  ['an exact address and port given twice', ['1.2.3.4:443', '1.2.3.4:443'], ['1 duplicate']],
  ['metadata without a port', ['169.254.169.254'], ['1 opens-nothing']],
  ['metadata with a range of ports', ['169.254.169.254:80-90'], ['1 opens-nothing']],
  ['metadata by its address and port', ['169.254.169.254:80'], []],
  ['loopback by range', ['127.0.0.0/8:8080'], ['1 opens-nothing']],
  ['loopback without a port', ['::1'], ['1 opens-nothing']],
  ['loopback by its address and port', ['[::1]:8080'], []],
  ['an exclusion of loopback', ['!127.0.0.0/8'], []],
  ['metadata under its range', ['169.254.169.254:80', '169.254.0.0/16:80'], []],
  [
    'an exclusion inside the floor under a wider rule still closes it',
    ['10.0.0.0/8', '!10.1.0.0/16:443', '0.0.0.0/0'],
    [],
  ],
  ['an exclusion outside the floor does not', ['!1.2.3.4:443', '1.0.0.0/8'], ['1 never-wins']],
  [
    'names and addresses never cover each other',
    ['1.2.3.4', { host: '**', wide: true }],
    ['2 rented-zone'],
  ],
]

for (const [name, rules, warnings] of TABLE) {
  void tap.test(name, async (t) => t.strictSame(lint(rules), warnings))
}

void tap.test('a warning says where both rules are', async (t) => {
  const [warning] = lintRules([ruleOf('x.a.test', 3), ruleOf('**.a.test', 9)], NOW)
  if (warning === undefined) throw new Error('no warning')
  t.equal(
    formatWarning(warning),
    'policy.yaml:3:5: x.a.test never wins: **.a.test (policy.yaml:9) comes later and covers it [never-wins]',
  )
})

void tap.test('many rules take no quadratic time', async (t) => {
  const rules = Array.from({ length: 50_000 }, (_, i) => ruleOf(`n${i}.a${i % 100}.test`, i + 1))
  const started = cpuTimeMs()
  t.strictSame(lintRules(rules, NOW), [])
  t.ok(cpuTimeMs() - started < 9000)
})
