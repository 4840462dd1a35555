import tap from 'tap'
import { z } from 'zod'
import { policySchema, presetSchema } from '../../src/policy/schema.ts'
import { checkShape, type ShapeDialect } from '../../src/policy/shape-problems.ts'
import { YamlSource } from '../../src/policy/yaml-source.ts'
import { inShort } from '../support/problems-of.ts'
import { cpuTimeMs } from '../support/cpu-time.ts'

function check(text: string, schema: Parameters<typeof checkShape>[1] = policySchema): string[] {
  const source = new YamlSource(text, 'f.yaml')
  checkShape(source, schema, source.toValue() ?? {}, (path) =>
    path.length === 0 ? ['rules', 'mode', 'tests', 'limits'] : ['host', 'ports', 'sni', 'require'],
  )
  return source.problems.map(
    (one) =>
      inShort(one).replace('POLICY_SHAPE ', '') + (one.correction ? ` -> ${one.correction}` : ''),
  )
}

const PORT_HINT = 'a port is a number from 1 to 65535, a range "LO-HI" in quotes, or "*"'
const RULE_HINT = 'a rule is a pattern in quotes or a map with the key host'

const TABLE: [text: string, problem: string][] = [
  ['ruls: []', '1:1 unknown key "ruls"; did you mean rules?'],
  ['zzzzzzzz: 1', '1:1 unknown key "zzzzzzzz"'],
  ['report: true', '1:1 the key "report" is reserved for a later version'],
  ['upstream: x', '1:1 the key "upstream" is reserved for a later version'],
  ['__proto__: 1', '1:1 unknown key "__proto__"'],
  ['constructor: 1', '1:1 unknown key "constructor"'],
  ['tls: {snl: off}', '1:7 unknown key "snl" in tls; did you mean sni?'],
  [
    'rules: [{hots: a.test, host: b.test}]',
    '1:10 unknown key "hots" in rules[1]; did you mean host?',
  ],
  ['rules: [{__proto__: 1, host: b.test}]', '1:10 unknown key "__proto__" in rules[1]'],
  ['rules: {a: b}', '1:8 rules is a map; expected a list'],
  ['rules: x', '1:8 rules is "x"; expected a list'],
  ['rules:', '1:7 rules is empty; expected a list'],
  ['rules: [5]', `1:9 rules[1] is 5; ${RULE_HINT}`],
  ['rules: [[a]]', `1:9 rules[1] is a list; ${RULE_HINT}`],
  ['rules: [~]', `1:9 rules[1] is empty; ${RULE_HINT}`],
  ['rules: [{}]', '1:9 rules[1].host is missing'],
  ['rules: [a.test: 443]', '1:9 rules[1] has the host as a key -> "a.test:443"'],
  ['rules: [a.test:]', '1:9 rules[1] has the host as a key -> "a.test"'],
  ['rules: [{host: 5}]', '1:16 rules[1].host is 5; expected a text (quote it)'],
  [
    'rules: [{host: a.test, private: yes}]',
    '1:33 rules[1].private is "yes"; expected true or false',
  ],
  ['rules: [{host: a.test, ports: 443}]', '1:31 rules[1].ports is 443; expected a list'],
  ['rules: [{host: a.test, ports: [70000]}]', '1:32 rules[1].ports[1] is 70000; the most is 65535'],
  ['ports: [x]', '1:9 ports[1] is "x"; expected a port, a range LO-HI in quotes, or "*"'],
  ['ports: [1.5]', `1:9 ports[1] is 1.5; ${PORT_HINT}`],
  ['ports: [{a: b}]', '1:9 ports[1] is a map'],
  ['mode: strict', '1:7 mode is "strict"; expected allowlist, denylist, open'],
  ['version: 2', '1:10 version is 2; expected 1'],
  ['tests: [a.test]', '1:8 tests is a list; expected a map'],
  ['tests: {allow: [5]}', '1:17 tests.allow[1] is 5; expected a text (quote it)'],
  ['limits: {maxHeadBytes: 10}', '1:24 limits.maxHeadBytes is 10; the least is 1024'],
  ['limits: {maxHeadBytes: 10000000}', '1:24 limits.maxHeadBytes is 10000000; the most is 1048576'],
  ['limits: {maxTunnels: 1.5}', '1:22 limits.maxTunnels is 1.5; expected a whole number'],
  ['limits: {maxTunnels: .inf}', '1:22 limits.maxTunnels is Infinity; expected a number'],
  ['limits: {maxTunnels: 1e400}', '1:22 limits.maxTunnels is Infinity; expected a number'],
  ['limits: {maxTunnels: .nan}', '1:22 limits.maxTunnels is NaN; expected a number'],
  ['hello', '1:1 the file is "hello"; expected a map'],
  ['- a', '1:1 the file is a list; expected a map'],
]

for (const [text, problem] of TABLE) {
  void tap.test(`${text} is said to be wrong where it is wrong`, async (t) => {
    const found = check(text)
    t.equal(found.length, 1)
    if (text.includes('{a: b}]')) t.match(found[0], problem)
    else t.equal(found[0], problem)
  })
}

void tap.test('a good value is answered, and nothing reported', async (t) => {
  t.strictSame(check('rules: [a.test, {host: b.test, ports: [1, "2-3", "*"]}]'), [])
  const source = new YamlSource('mode: open', 'f.yaml')
  t.strictSame(
    checkShape(source, policySchema, source.toValue(), () => []),
    { mode: 'open' },
  )
})

void tap.test('a preset says what a preset must have', async (t) => {
  t.strictSame(check('{}', presetSchema), ['1:1 name is missing', '1:1 description is missing'])
  t.strictSame(check('name: My Preset\ndescription: ""\n', presetSchema), [
    '1:7 name is "My Preset"; expected lower case letters, digits and single hyphens',
    '2:14 description is ""; the least is 1',
  ])
  t.strictSame(
    check('name: x\ndescription: y\nrules: [{host: a.test, exfiltration: some}]\n', presetSchema),
    [
      '3:9 rules[1].note is missing',
      '3:38 rules[1].exfiltration is "some"; expected none, own-account, anybody',
    ],
  )
})

void tap.test('many unknown keys take no quadratic time', async (t) => {
  const text = Array.from({ length: 20_000 }, (_, i) => `k${i}: 443`).join('\n')
  const started = cpuTimeMs()
  t.equal(check(text).length, 20_000)
  t.ok(cpuTimeMs() - started < 15000)
})

void tap.test('a part of a file is checked in its place, under its whole name', async (t) => {
  const source = new YamlSource('a:\n  b: {ruls: [], mode: strict, rules: [5]}\n', 'f.yaml')
  const part = source.part(['a', 'b'])
  checkShape(part, policySchema, part.toValue(), () => ['rules'])
  t.strictSame(source.problems.map(inShort), [
    '2:23 POLICY_SHAPE a.b.mode is "strict"; expected allowlist, denylist, open',
    `2:39 POLICY_SHAPE a.b.rules[1] is 5; ${RULE_HINT}`,
    '2:7 POLICY_SHAPE unknown key "ruls" in a.b; did you mean rules?',
  ])
})

void tap.test('another kind of file has its own code and words', async (t) => {
  const dialect: ShapeDialect = {
    code: 'WORKFLOW_SHAPE',
    explainKey: (path, key) => (key === 'old' ? `old ${path.join('.')}` : undefined),
    unionHint: (path) => `hint for ${path.join('.')}`,
    spell: () => undefined,
  }
  const schema = z.strictObject({
    one: z.union([z.enum(['x']), z.strictObject({ y: z.string() })]),
    many: z.record(z.string(), z.string()).optional(),
  })
  const found = (text: string) => {
    const source = new YamlSource(text, 'f.yaml')
    checkShape(source, schema, source.toValue(), () => [], dialect)
    return source.problems.map((one) => inShort(one).replace('WORKFLOW_SHAPE ', ''))
  }
  t.strictSame(found('{}'), ['1:1 one is missing; hint for one'])
  t.strictSame(found('one: z'), ['1:6 one is "z"; hint for one'])
  t.strictSame(found('one: {a.b: 1}'), ['1:6 one.y is missing', '1:7 unknown key "a.b" in one'])
  t.strictSame(found('one: {y: 1}'), ['1:10 one.y is 1; expected a text (quote it)'])
  t.strictSame(found('one: x\nold: 1\nreport: 1'), ['2:1 old ', '3:1 unknown key "report"'])
  t.strictSame(found('one: x\nmany: []'), ['2:7 many is a list; expected a map'])
})
