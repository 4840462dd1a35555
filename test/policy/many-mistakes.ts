import { mkdirSync, truncateSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import tap from 'tap'
import { formatProblem } from '../../src/errors.ts'
import { loadPolicy } from '../../src/presets/load-policy.ts'
import { inShort, problemsOf } from '../support/problems-of.ts'
import { cpuTimeMs } from '../support/cpu-time.ts'

const FOLDER = fileURLToPath(new URL('../fixtures/policies', import.meta.url))
const file = (name: string) => path.join(FOLDER, name)
const load = (name: string) => problemsOf(() => loadPolicy(file(name)))

type Expected = [line: number, column: number, code: string, message: RegExp, correction?: string]

const MISTAKES: Expected[] = [
  [2, 10, 'POLICY_SHAPE', /^version is 2; expected 1$/],
  [3, 7, 'POLICY_SHAPE', /^mode is "strict"; expected allowlist, denylist, open$/],
  [4, 13, 'POLICY_PATTERN', /^"90-80" is no port/],
  [5, 11, 'PRESET_UNKNOWN', /^there is no preset "no-such-preset"/],
  [6, 1, 'POLICY_SHAPE', /^unknown key "rule"; did you mean rules\?$/],
  [8, 5, 'POLICY_PATTERN', /a pattern has no scheme and no path$/, '"api.example.com"'],
  [
    9,
    5,
    'POLICY_SYNTAX',
    /^YAML tags are not allowed/,
    '- "!evil.example" and on its own line - "good.example"',
  ],
  [10, 5, 'POLICY_SYNTAX', /^YAML aliases are not allowed/, '- "*.example.com"'],
  [11, 5, 'POLICY_PATTERN', /bits set behind the prefix length$/, '"10.0.0.0/8:5432"'],
  [
    12,
    5,
    'POLICY_PATTERN',
    /as wide as a public suffix/,
    '{ host: "*.com", wide: true } if that is meant',
  ],
  [13, 5, 'POLICY_SHAPE', /^rules\[6\] has the host as a key$/, '"api.example.com:443"'],
  [14, 30, 'POLICY_SHAPE', /^unknown key "prots" in rules\[7\]; did you mean ports\?$/],
  [15, 13, 'POLICY_PATTERN', /\*\* stands for whole labels$/, '"**.b.example.com"'],
  [15, 40, 'POLICY_SHAPE', /^rules\[8\]\.ports\[1\] is 70000; the most is 65535$/],
  [16, 40, 'POLICY_RULE', /^private is for an allow rule with an exact name$/],
  [17, 35, 'POLICY_RULE', /^until has to be a date and time with a zone/, '2027-01-31T00:00:00Z'],
  [18, 5, 'POLICY_PATTERN', /look-alike character U\+FF41/, '"a.example.com"'],
  [19, 5, 'POLICY_SHAPE', /^rules\[12\] is 127\.1; a rule is a pattern in quotes/],
  [21, 5, 'POLICY_PATTERN', /^a quiet pattern has no !$/, '"stats.example.com"'],
  [22, 13, 'POLICY_SHAPE', /^tls\.sni is "maybe"; expected off, report, enforce$/],
  [23, 23, 'POLICY_SHAPE', /^limits\.maxTunnels is -1; the least is 0$/],
  [25, 11, 'POLICY_SHAPE', /^"a b\.example\.com" is no target/],
  [26, 1, 'POLICY_SHAPE', /^the key "upstream" is reserved for a later version$/],
]

void tap.test(
  'a file with many mistakes tells each of them at once, where it is and what to write',
  async (t) => {
    const problems = load('twelve-mistakes.yaml')
    t.equal(problems.length, MISTAKES.length, problems.map(inShort).join('\n'))
    for (const [i, [line, column, code, message, correction]] of MISTAKES.entries()) {
      const problem = problems[i]
      t.match(
        problem,
        { code, message, at: { file: file('twelve-mistakes.yaml'), line, column } },
        `mistake ${i + 1}`,
      )
      t.equal(problem?.correction, correction, `correction of mistake ${i + 1}`)
      t.match(problem?.sourceLine, /# .*\d/, `line of mistake ${i + 1}`)
    }
    const shown = problems.slice(0, 1).map(formatProblem).join('')
    t.match(shown, /twelve-mistakes\.yaml:2:10: .*\n {4}version: 2 # 1\n {13}\^$/)
  },
)

const ONE: [name: string, problems: (string | RegExp)[]][] = [
  ['tag.yaml', [/^2:5 POLICY_SYNTAX YAML tags/]],
  ['anchor.yaml', [/^2:5 POLICY_SYNTAX YAML anchors/]],
  ['alias.yaml', [/^2:5 POLICY_SYNTAX YAML aliases/]],
  ['merge-key.yaml', [/^2:5 POLICY_SYNTAX YAML merge keys are not allowed/]],
  ['directive.yaml', [/^1:1 POLICY_SYNTAX YAML directives are not allowed/]],
  ['duplicate-key.yaml', [/^3:1 POLICY_SHAPE the key "rules" is given twice/]],
  ['two-documents.yaml', [/^2:1 POLICY_SYNTAX a file holds one document/]],
  [
    'invalid-utf-8.yaml',
    [/^FILE_UNREADABLE .*invalid-utf-8\.yaml: not UTF-8 at byte 29; save the file as UTF-8/],
  ],
  ['presets', [/^FILE_UNREADABLE .*presets: is a directory/]],
  ['missing.yaml', [/^FILE_UNREADABLE .*missing\.yaml: no such file/]],
  [
    'preset-cycle.yaml',
    [/^3:11 PRESET_CYCLE presets extend each other in a ring: first -> second -> third -> first$/],
  ],
  [
    'preset-self-cycle.yaml',
    [/^3:11 PRESET_CYCLE presets extend each other in a ring: narcissus -> narcissus$/],
  ],
  [
    'unknown-preset.yaml',
    [/^2:5 PRESET_UNKNOWN there is no preset "iterion-defalt"; did you mean iterion-default\?/],
  ],
  [
    'broken-preset.yaml',
    [
      /^3:1 POLICY_SHAPE unknown key "mode"/,
      /^4:9 POLICY_PATTERN "a.example.com\/x": a pattern has no path/,
    ],
  ],
  [
    'preset-in-denylist.yaml',
    [
      /^2:11 POLICY_RULE the preset \.\/presets\/good\.yaml allows what denylist mode allows anyway/,
    ],
  ],
  [
    'idle-rule.yaml',
    [/^3:5 POLICY_RULE "b\.example\.com" allows what denylist mode allows anyway/],
  ],
]

for (const [name, problems] of ONE) {
  void tap.test(`${name} is refused for what its name says`, async (t) => {
    const found = load(name).map(inShort)
    t.equal(found.length, problems.length, found.join('\n'))
    t.match(found, problems)
  })
}

void tap.test('a problem in a file that has a place has its line as well', async (t) => {
  for (const name of [
    'tag.yaml',
    'idle-rule.yaml',
    'preset-in-denylist.yaml',
    'unknown-preset.yaml',
    'broken-preset.yaml',
  ]) {
    for (const problem of load(name)) t.type(problem.sourceLine, 'string', name)
  }
})

void tap.test('a BOM and line ends of CR LF load', async (t) => {
  for (const name of ['bom.yaml', 'crlf.yaml']) {
    const { policy } = loadPolicy(file(name))
    t.match(
      policy,
      { mode: 'open', rules: [{ text: '!a.example.com', origin: { line: 3, column: 5 } }] },
      name,
    )
  }
})

void tap.test('billions of laughs are aliases, and told in no time', async (t) => {
  const started = cpuTimeMs()
  const problems = load('billion-laughs.yaml')
  t.ok(cpuTimeMs() - started < 3000)
  t.equal(problems.length, 5)
  for (const { code } of problems) t.equal(code, 'POLICY_SYNTAX')
})

void tap.test('a hundred thousand brackets are refused, and the process lives', async (t) => {
  const dir = t.testdir({ 'deep.yaml': `rules: ${'['.repeat(100_000)}` })
  t.match(
    problemsOf(() => loadPolicy(path.join(dir, 'deep.yaml'))),
    [{ code: 'POLICY_SYNTAX', message: /nest too deeply$/ }],
  )
})

void tap.test('a file of more than 16 MiB is refused without being read', async (t) => {
  const dir = t.testdir()
  const huge = path.join(dir, 'huge.yaml')
  writeFileSync(huge, '')
  truncateSync(huge, 100 * 1024 * 1024)
  const started = cpuTimeMs()
  t.match(
    problemsOf(() => loadPolicy(huge)),
    [{ code: 'FILE_UNREADABLE', message: /has 104857600 bytes; the most is 16777216/ }],
  )
  t.ok(cpuTimeMs() - started < 1500)
})

void tap.test('a good policy with a preset of its own loads, and its tests hold', async (t) => {
  mkdirSync(t.testdirName, { recursive: true })
  const { policy, tests } = loadPolicy(file('good.yaml'))
  t.equal(policy.rules.length, 3)
  t.equal(tests.length, 2)
})
