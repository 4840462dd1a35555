import tap from 'tap'
import { DEFAULT_TLS, parsePolicy, parsePreset, readPolicyPart } from '../../src/policy/parse.ts'
import { formatPorts } from '../../src/policy/ports.ts'
import { YamlSource } from '../../src/policy/yaml-source.ts'
import { inShort, problemsOf } from '../support/problems-of.ts'

const FULL = `version: 1
mode: denylist
presets: [one, ./two.yaml]
ports: [443, "8000-8010"]
rules:
  - "!**.a.test"
  - ok.a.test
  - { host: x.a.test, ports: [22], note: why, until: "2027-01-01T00:00:00Z" }
quiet: [s.a.test, "*.com:443"]
tls: { sni: report, require: true }
limits: { maxTunnels: 0, headTimeoutMs: 5000 }
tests:
  allow: ["https://ok.a.test", "x.a.test:22"]
  deny: [a.b, "no target at all"]
`

void tap.test('every key of a policy is read', async (t) => {
  const policy = parsePolicy(FULL, 'p.yaml')
  t.match(policy, { file: 'p.yaml', mode: 'denylist', tls: { sni: 'report', require: true } })
  t.strictSame(policy.presets, [
    { name: 'one', at: { file: 'p.yaml', line: 3, column: 11 } },
    { name: './two.yaml', at: { file: 'p.yaml', line: 3, column: 16 } },
  ])
  t.strictSame(
    policy.rules.map(({ text, ports, origin }) => [
      text,
      formatPorts(ports),
      origin.line,
      origin.column,
    ]),
    [
      ['!**.a.test', '*', 6, 5],
      ['ok.a.test', '443,8000-8010', 7, 5],
      ['x.a.test', '22', 8, 5],
    ],
  )
  t.strictSame(
    policy.quiet.map(({ text, ports }) => [text, formatPorts(ports)]),
    [
      ['s.a.test', '*'],
      ['*.com:443', '443'],
    ],
  )
  t.strictSame(policy.limits, { maxTunnels: 0, headTimeoutMs: 5000 })
  t.strictSame(
    policy.tests.map(({ expect, text, origin }) => [expect, text, origin.line]),
    [
      ['allow', 'https://ok.a.test', 13],
      ['allow', 'x.a.test:22', 13],
      ['deny', 'a.b', 14],
      ['deny', 'no target at all', 14],
    ],
  )
  t.equal(policy.lineAt(2), 'mode: denylist')
})

void tap.test('an empty file is a policy that allows nothing', async (t) => {
  for (const text of ['', '# nothing\n', '---\n', '{}', '~']) {
    t.match(parsePolicy(text, 'p.yaml'), {
      mode: 'allowlist',
      presets: [],
      rules: [],
      quiet: [],
      tests: [],
      limits: {},
      tls: DEFAULT_TLS,
    })
  }
})

void tap.test('a BOM and lines that end in CR LF change nothing', async (t) => {
  const plain = parsePolicy(FULL, 'p.yaml')
  for (const text of [
    `\ufeff${FULL}`,
    FULL.replaceAll('\n', '\r\n'),
    `\ufeff${FULL.replaceAll('\n', '\r\n')}`,
  ]) {
    t.strictSame({ ...parsePolicy(text, 'p.yaml'), lineAt: 0 }, { ...plain, lineAt: 0 })
  }
})

void tap.test('preset: is a list of one', async (t) => {
  t.match(parsePolicy('preset: one', 'p.yaml').presets, [
    { name: 'one', at: { line: 1, column: 9 } },
  ])
  t.strictSame(problemsOf(() => parsePolicy('preset: a\npresets: [b]\n', 'p.yaml')).map(inShort), [
    '1:1 POLICY_SHAPE give either preset or presets, not both',
  ])
})

void tap.test('a name of a preset is checked where it stands, if somebody can', async (t) => {
  const checkPreset = (name: string) => (name === 'one' ? undefined : `no ${name}`)
  const check = (text: string) =>
    problemsOf(() => parsePolicy(text, 'p.yaml', { checkPreset })).map(inShort)
  t.strictSame(check('presets: [one, two]'), ['1:16 PRESET_UNKNOWN no two'])
  t.strictSame(check('preset: two'), ['1:9 PRESET_UNKNOWN no two'])
  t.equal(parsePolicy('preset: two', 'p.yaml').presets.length, 1, 'without a check it waits')
})

const TABLE: [name: string, text: string, problems: string[], correction?: string][] = [
  [
    'a pattern',
    'rules: ["a.test/x"]',
    ['1:9 POLICY_PATTERN "a.test/x": a pattern has no path'],
    '"a.test"',
  ],
  [
    'a pattern in a map',
    'rules: [{host: "a.test/x"}]',
    ['1:16 POLICY_PATTERN "a.test/x": a pattern has no path'],
    '"a.test"',
  ],
  [
    'a rule',
    'rules: [{host: "!a.test", private: true}]',
    ['1:36 POLICY_RULE private is for an allow rule with an exact name'],
  ],
  [
    'a port of a rule',
    'rules: [{host: a.test, ports: ["90-80"]}]',
    ['1:31 POLICY_PATTERN "90-80" is no port (1 to 65535), range LO-HI or *'],
  ],
  [
    'default ports',
    'ports: ["90-80"]',
    ['1:9 POLICY_PATTERN "90-80" is no port (1 to 65535), range LO-HI or *'],
  ],
  ['no default ports', 'ports: []', ['1:8 POLICY_RULE an empty list of ports matches nothing']],
  [
    'a quiet pattern',
    'quiet: ["https://a.test/x"]',
    ['1:9 POLICY_PATTERN "https://a.test/x": a pattern has no scheme and no path'],
    '"a.test"',
  ],
  [
    'a quiet exclusion',
    'quiet: ["!a.test"]',
    ['1:9 POLICY_PATTERN a quiet pattern has no !'],
    '"a.test"',
  ],
  ['a quiet address', 'quiet: ["10.0.0.1"]', ['1:9 POLICY_RULE quiet is for patterns over names']],
  [
    'a target to allow',
    'tests: {allow: ["a b"]}',
    ['1:17 POLICY_SHAPE "a b" is no target: the character U+0020 does not belong into a host'],
  ],
  [
    'a line that YAML misreads',
    'rules:\n  - !a.test b.test:99999\n',
    ['2:5 POLICY_SYNTAX YAML tags are not allowed: ! starts one unless it is quoted'],
  ],
  ['a broken structure', 'rules: ["a.test/x"\nmode: 5\n', ['2:1 POLICY_SYNTAX']],
  [
    'shape and pattern',
    'mode: 5\nrules: ["a.test/x", 7]\n',
    [
      '1:7 POLICY_SHAPE mode is 5; expected allowlist, denylist, open',
      '2:9 POLICY_PATTERN "a.test/x": a pattern has no path',
      '2:21 POLICY_SHAPE rules[2] is 7; a rule is a pattern in quotes or a map with the key host',
    ],
  ],
  [
    'a list where a map belongs',
    '- a.test',
    ['1:1 POLICY_SHAPE the file is a list; expected a map'],
  ],
  [
    'odd kinds everywhere',
    'quiet: 5\ntests: 5\nrules: 5\npresets: 5\nports: 5\n',
    ['1:8 ', '2:8 ', '3:8 ', '4:10 ', '5:8 '],
  ],
  [
    'odd items everywhere',
    'quiet: [5]\ntests: {allow: [5], deny: 5}\npresets: [5]\nrules: [{host: a.test, until: 5}]\n',
    ['1:9 ', '2:17 ', '2:27 ', '3:11 ', '4:31 '],
  ],
]

for (const [name, text, problems, correction] of TABLE) {
  void tap.test(`${name} is pointed at`, async (t) => {
    const found = problemsOf(() => parsePolicy(text, 'p.yaml'))
    const shown = found.map(inShort)
    t.equal(shown.length, problems.length, shown.join(' | '))
    for (const [i, problem] of problems.entries())
      t.ok(shown[i]?.startsWith(problem), `${shown[i]} / ${problem}`)
    if (correction !== undefined) t.equal(found[0]?.correction, correction)
  })
}

const PRESET = `name: my-preset
description: what for
verified: 2026-11-29
extends: [one, two]
rules:
  - "!x.a.test"
  - { host: "*.a.test", ports: [443], note: why, source: where, verified: 2026-11-28, exfiltration: none }
tests:
  deny: [x.a.test]
`

void tap.test('every key of a preset is read', async (t) => {
  const preset = parsePreset(PRESET, 'presets/my-preset.yaml')
  t.match(preset, {
    file: 'presets/my-preset.yaml',
    name: 'my-preset',
    description: 'what for',
    verified: '2026-11-29',
    extends: [{ name: 'one', at: { line: 4, column: 11 } }, { name: 'two' }],
    rules: [
      { text: '!x.a.test' },
      { text: '*.a.test', origin: { source: 'preset:my-preset', line: 7 } },
    ],
    tests: [{ expect: 'deny', origin: { source: 'preset:my-preset' } }],
    entries: [
      { note: undefined },
      { note: 'why', source: 'where', verified: '2026-11-28', exfiltration: 'none' },
    ],
  })
})

void tap.test('a preset carries nothing that loosens a check', async (t) => {
  const text = `${PRESET}mode: open\ntls: {sni: off}\nquiet: [x.test]\n`
  t.strictSame(problemsOf(() => parsePreset(text, 'p.yaml')).map(inShort), [
    '10:1 POLICY_SHAPE unknown key "mode"',
    '11:1 POLICY_SHAPE unknown key "tls"',
    '12:1 POLICY_SHAPE unknown key "quiet"',
  ])
  for (const key of ['private', 'wide', 'until']) {
    const rule = `name: x\ndescription: y\nrules: [{host: a.test, note: z, ${key}: true}]\n`
    t.match(problemsOf(() => parsePreset(rule, 'p.yaml')).map(inShort), [
      new RegExp(`3:33 POLICY_SHAPE unknown key "${key}" in rules\\[1\\]`),
    ])
  }
  t.match(problemsOf(() => parsePreset('rules: [a.test/x]', 'p.yaml')).map(inShort), [
    /name is missing/,
    /description is missing/,
    /no path/,
  ])
})

void tap.test('keys that every object has are no keys of a file', async (t) => {
  for (const key of ['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'valueOf']) {
    t.match(
      problemsOf(() => parsePolicy(`${key}: {mode: open}`, 'p.yaml')),
      [{ code: 'POLICY_SHAPE' }],
      key,
    )
    t.match(
      problemsOf(() => parsePolicy(`tls: {${key}: {}}`, 'p.yaml')),
      [{ code: 'POLICY_SHAPE' }],
      key,
    )
    t.match(
      problemsOf(() => parsePolicy(`limits: {${key}: 5}`, 'p.yaml')),
      [{ code: 'POLICY_SHAPE' }],
      key,
    )
    t.match(
      problemsOf(() => parsePolicy(`tests: {${key}: [a]}`, 'p.yaml')),
      [{ code: 'POLICY_SHAPE' }],
      key,
    )
    t.equal(
      parsePolicy(`rules: [${key}, "!${key}.test"]`, 'p.yaml').rules.length,
      2,
      `${key} is a name like another`,
    )
  }
})

void tap.test('a preset allows names and no addresses', async (t) => {
  const text = (rule: string) => `name: p\ndescription: d\nrules: [{ host: "${rule}", note: n }]\n`
  for (const rule of ['10.0.0.0/8:443', '169.254.169.254:80', '[::1]:80', '9.9.9.9']) {
    t.match(
      problemsOf(() => parsePreset(text(rule), 'p.yaml')),
      [
        {
          code: 'POLICY_RULE',
          message: `a preset allows names, not addresses: ${rule}`,
          at: { line: 3 },
        },
      ],
      rule,
    )
  }
  t.equal(parsePreset(text('!10.0.0.0/8'), 'p.yaml').rules.length, 1, 'it may exclude them')
})

void tap.test('a policy can be a part of another file', async (t) => {
  const text = 'x:\n  y:\n    ports: [1]\n    rules: [a.test]\n    presets: [one]\n'
  const source = new YamlSource(text, 'w.yaml')
  t.match(readPolicyPart(source.part(['x', 'y']), {}), {
    file: 'w.yaml',
    isEmbedded: true,
    rules: [{ ports: [{ low: 1, high: 1 }], origin: { source: 'w.yaml', line: 4, column: 13 } }],
    presets: [{ name: 'one', at: { line: 5, column: 15 } }],
  })
  t.strictSame(source.problems, [])
  t.match(readPolicyPart(source.part(['x', 'none']), {}), { mode: 'allowlist', rules: [] })
  t.equal(readPolicyPart(source.part(['x']), {}), undefined, 'a wrong shape is reported')
  t.strictSame(source.problems.map(inShort), ['2:3 POLICY_SHAPE unknown key "y" in x'])
  t.equal(parsePolicy('', 'p.yaml').isEmbedded, false)
})
