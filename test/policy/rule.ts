import tap from 'tap'
import { DEFAULT_PORTS } from '../../src/policy/parse.ts'
import { formatPorts } from '../../src/policy/ports.ts'
import {
  formatOrigin,
  isExactAddressRule,
  isLive,
  parseRule,
  type RuleSource,
} from '../../src/policy/rule.ts'
import { NOW, ruleOf } from '../support/policy-of.ts'

const ORIGIN = { source: 'policy.yaml', line: 7, column: 3 }

void tap.test('a rule is read with effect, pattern and ports', async (t) => {
  const table: [host: string, effect: string, pattern: string, ports: string, named: boolean][] = [
    ['a.test', 'allow', 'a.test', '80,443', false],
    ['a.test:22', 'allow', 'a.test', '22', true],
    ['a.test:8000-8010', 'allow', 'a.test', '8000-8010', true],
    ['a.test:*', 'allow', 'a.test', '*', true],
    ['!a.test', 'exclude', 'a.test', '*', false],
    ['!a.test:22', 'exclude', 'a.test', '22', true],
    ['!**', 'exclude', '**', '*', false],
    ['!*.com', 'exclude', '*.com', '*', false],
    ['*.x.test:22', 'allow', '*.x.test', '22', true],
    ['10.0.0.0/8:5432', 'allow', '10.0.0.0/8', '5432', true],
    ['10.0.0.0/8', 'allow', '10.0.0.0/8', '80,443', false],
    ['1.2.3.4:22', 'allow', '1.2.3.4', '22', true],
    ['2001:db8::1', 'allow', '2001:db8::1', '80,443', false],
    ['2001:db8::1:22', 'allow', '2001:db8::1:22', '80,443', false],
    ['[2001:db8::1]:22', 'allow', '2001:db8::1', '22', true],
    ['2001:db8::/32:22', 'allow', '2001:db8::/32', '22', true],
    ['!2001:db8::/32', 'exclude', '2001:db8::/32', '*', false],
    ['::/0:443', 'allow', '::/0', '443', true],
  ]
  for (const [host, effect, pattern, ports, named] of table) {
    const rule = ruleOf(host)
    t.match(rule, { effect, pattern: { text: pattern }, namesPorts: named, text: host }, host)
    t.equal(formatPorts(rule.ports), ports, `ports of ${host}`)
  }
})

void tap.test('keys of a rule', async (t) => {
  const rule = ruleOf({
    host: 'a.test',
    ports: [8200, '9000-9001', 8201],
    private: true,
    note: 'why',
    until: '2027-01-31T00:00:00Z',
  })
  t.equal(formatPorts(rule.ports), '8200-8201,9000-9001')
  t.match(rule, { private: true, note: 'why', until: Date.UTC(2027, 0, 31), namesPorts: true })
  t.match(ruleOf({ host: '*.com', wide: true }).pattern, { text: '*.com' })
  t.match(ruleOf({ host: 'a.test', ports: ['*'] }).ports, [{ low: 1, high: 65535 }])
})

type Row = [
  source: RuleSource,
  key: string,
  code: string,
  message: RegExp,
  correction?: string | undefined,
]

void tap.test('what is wrong with a rule is said for the key at fault', async (t) => {
  const table: Row[] = [
    [{ host: 'a/b' }, 'host', 'POLICY_PATTERN', /"a\/b": a pattern has no path/, '"a"'],
    [{ host: 'a.test/b:22' }, 'host', 'POLICY_PATTERN', /no path/, '"a.test:22"'],
    [{ host: 'https://a.test:8080/v1' }, 'host', 'POLICY_PATTERN', /no scheme/, '"a.test:8080"'],
    [{ host: '!https://a.test/v1' }, 'host', 'POLICY_PATTERN', /no scheme/, '"!a.test"'],
    [{ host: 'https://u@a.test/v1' }, 'host', 'POLICY_PATTERN', /no scheme/, '"a.test"'],
    [{ host: 'https://https://a.test' }, 'host', 'POLICY_PATTERN', /no scheme/, undefined],
    [{ host: '**x.test:22' }, 'host', 'POLICY_PATTERN', /whole labels/, '"**.x.test:22"'],
    [{ host: '**com' }, 'host', 'POLICY_PATTERN', /whole labels/, undefined],
    [{ host: '!**com' }, 'host', 'POLICY_PATTERN', /whole labels/, '"!**.com"'],
    [{ host: '10/8:22' }, 'host', 'POLICY_PATTERN', /four decimal parts/, '"10.0.0.0/8:22"'],
    [{ host: '0xa010203/8' }, 'host', 'POLICY_PATTERN', /four decimal parts/, '"10.0.0.0/8"'],
    [{ host: '010.0.0.0/8' }, 'host', 'POLICY_PATTERN', /no path/, undefined],
    [{ host: '!!a.test' }, 'host', 'POLICY_PATTERN', /U\+0021/, undefined],
    [{ host: '!' }, 'host', 'POLICY_PATTERN', /empty/, undefined],
    [{ host: ':443' }, 'host', 'POLICY_PATTERN', /neither a name/, undefined],
    [{ host: 'a.test:0' }, 'host', 'POLICY_PATTERN', /"0" is no port/, undefined],
    [{ host: 'a.test:' }, 'host', 'POLICY_PATTERN', /"" is no port/, undefined],
    [{ host: 'a.test:x' }, 'host', 'POLICY_PATTERN', /"x" is no port/, undefined],
    [{ host: 'a.test', ports: [0] }, 'ports', 'POLICY_PATTERN', /"0" is no port/, undefined],
    [{ host: 'a.test', ports: [] }, 'ports', 'POLICY_RULE', /empty list/, undefined],
    [{ host: 'a.test:22', ports: [22] }, 'ports', 'POLICY_RULE', /given twice/, undefined],
    [
      { host: '*.com' },
      'host',
      'POLICY_PATTERN',
      /as wide as a public suffix/,
      '{ host: "*.com", wide: true } if that is meant',
    ],
    [{ host: '10.0.0.0/8', wide: true }, 'wide', 'POLICY_RULE', /wide is for/, undefined],
    [{ host: '*.x.test', private: true }, 'private', 'POLICY_RULE', /private is for/, undefined],
    [{ host: '!x.test', private: true }, 'private', 'POLICY_RULE', /private is for/, undefined],
    [{ host: '10.0.0.1', private: true }, 'private', 'POLICY_RULE', /private is for/, undefined],
    [
      { host: 'a.test', until: '2027-01-31' },
      'until',
      'POLICY_RULE',
      /with a zone/,
      '2027-01-31T00:00:00Z',
    ],
    [
      { host: 'a.test', until: '2027-01-31T00:00:00' },
      'until',
      'POLICY_RULE',
      /with a zone/,
      undefined,
    ],
    [
      { host: 'a.test', until: '2027-02-30T00:00:00Z' },
      'until',
      'POLICY_RULE',
      /with a zone/,
      undefined,
    ],
    [
      { host: 'a.test', until: '2027-13-01T00:00:00Z' },
      'until',
      'POLICY_RULE',
      /with a zone/,
      undefined,
    ],
    [
      { host: 'a.test', until: '2027-01-01T25:00:00Z' },
      'until',
      'POLICY_RULE',
      /with a zone/,
      undefined,
    ],
    [{ host: 'a.test', until: 'tomorrow' }, 'until', 'POLICY_RULE', /with a zone/, undefined],
    [{ host: 'a.test', until: '' }, 'until', 'POLICY_RULE', /with a zone/, undefined],
  ]
  for (const [source, key, code, message, correction] of table) {
    const name = JSON.stringify(source)
    const faults = parseRule(source, DEFAULT_PORTS, ORIGIN)
    if (!('length' in faults)) {
      t.fail(`${name} is a rule`)
      continue
    }
    t.match(faults, [{ key, code, message }], name)
    t.equal(faults[0]?.correction, correction, `correction of ${name}`)
  }
})

void tap.test('every correction loads', async (t) => {
  const hosts = [
    'https://a@b.test:8080/x',
    '[1.2.3.4]:80',
    '[::1]/128:80',
    '**x.test:99999',
    ' .a..test',
    'ａ。test',
  ]
  const more = [
    'http://[::1%25lo]/',
    '10.1.2.3/8',
    '*.*.*.1',
    '10.0.*.*',
    'u@*.com',
    '**.1',
    '/',
    'a.test/',
    '::1%x',
    '[fe80::1%x]:22',
  ]
  for (const host of [...hosts, ...more]) {
    const faults = parseRule({ host }, DEFAULT_PORTS, ORIGIN)
    if (!('length' in faults)) throw new Error(`${host} is a rule`)
    for (const { correction } of faults) {
      if (correction === undefined) continue
      const again = parseRule({ host: JSON.parse(correction) as string }, DEFAULT_PORTS, ORIGIN)
      t.notOk('length' in again, `${host}: ${correction}`)
    }
  }
})

void tap.test('all faults of a rule are told at once', async (t) => {
  const faults = parseRule(
    { host: 'a/b:0', ports: [], until: 'x', private: true },
    DEFAULT_PORTS,
    ORIGIN,
  )
  t.match(faults, [{ key: 'host' }, { key: 'until' }].slice(0, 1))
  t.ok('length' in faults && faults.length >= 3)
})

void tap.test('a rule lives until the moment it names', async (t) => {
  const until = '2027-01-01T01:00:00+01:00'
  const rule = ruleOf({ host: 'a.test', until })
  t.equal(rule.until, NOW)
  t.ok(isLive(rule, NOW - 1))
  t.notOk(isLive(rule, NOW))
  t.ok(isLive(ruleOf('a.test'), Infinity))
  t.notOk(isLive(rule, NaN), 'without a clock it has run out')
})

void tap.test('only a rule for one address and one port is exact', async (t) => {
  const table: [string | RuleSource, number, boolean][] = [
    ['127.0.0.1:80', 80, true],
    ['127.0.0.1:80', 81, false],
    ['127.0.0.1/32:80', 80, true],
    ['[::1]:80', 80, true],
    [{ host: '127.0.0.1', ports: [80, 443] }, 443, true],
    ['127.0.0.1', 80, false],
    ['127.0.0.1:79-81', 80, false],
    ['127.0.0.1:*', 80, false],
    ['127.0.0.0/31:80', 80, false],
    ['a.test:80', 80, false],
  ]
  for (const [rule, port, exact] of table) {
    t.equal(isExactAddressRule(ruleOf(rule), port), exact, JSON.stringify(rule))
  }
})

void tap.test('an origin is shown as file and line', async (t) => {
  t.equal(formatOrigin(ORIGIN), 'policy.yaml:7')
})
