import { writeFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { runCli } from '../support/run-cli.ts'

const POLICY = `version: 1
rules:
  - allowed.test
  - "git.allowed.test:22"
  - "!secret.allowed.test"
  - "10.20.0.0/16:5432"
  - { host: vault.test, ports: [8200], private: true }
tests:
  allow: ["https://allowed.test"]
  deny: ["git.allowed.test:25"]
`

function policyFile(test: Tap, text = POLICY): string {
  const file = path.join(test.testdir(), 'policy.yaml')
  writeFileSync(file, text)
  return file
}

interface Tap {
  testdir(): string
}

void tap.test('test answers a JSON array in order, to the letter', async (t) => {
  const file = policyFile(t)
  const targets = [
    'allowed.test',
    'git.allowed.test:25',
    '10.20.1.1:5432',
    'secret.allowed.test',
    'a b',
  ]
  const { code, stdout } = await runCli(['test', '--json', '--policy', file, ...targets])
  t.equal(code, 1)
  t.strictSame(JSON.parse(stdout), [
    {
      target: 'allowed.test',
      verdict: 'allow',
      reason: 'rule',
      rule: 'allowed.test',
      origin: `${file}:3`,
      lookup: 'needed',
    },
    {
      target: 'git.allowed.test:25',
      verdict: 'deny',
      reason: 'port',
      rule: 'git.allowed.test:22',
      origin: `${file}:4`,
      lookup: 'none',
    },
    {
      target: '10.20.1.1:5432',
      verdict: 'allow',
      reason: 'rule',
      rule: '10.20.0.0/16:5432',
      origin: `${file}:6`,
      lookup: 'none',
    },
    {
      target: 'secret.allowed.test',
      verdict: 'deny',
      reason: 'excluded',
      rule: '!secret.allowed.test',
      origin: `${file}:5`,
      lookup: 'none',
    },
    {
      target: 'a b',
      verdict: 'deny',
      reason: 'bad-target',
      rule: null,
      origin: null,
      lookup: 'none',
    },
  ])
})

void tap.test('origins say where a rule comes from: file, preset, command line', async (t) => {
  const { stdout } = await runCli([
    'test',
    '--json',
    '--preset',
    'forges',
    '--rule',
    'x.test',
    '--rule',
    'y.test',
    'y.test',
    'api.github.com',
  ])
  const [own, preset] = JSON.parse(stdout)
  t.equal(own.origin, '--rule:2')
  t.match(preset.origin, /^preset:forges:\d+$/)
})

void tap.test(
  'the exit code is the answer: 0 if everything is allowed, 1 if something is not',
  async (t) => {
    t.equal((await runCli(['test', '--rule', 'a.test', 'a.test'])).code, 0)
    t.equal((await runCli(['test', '--rule', 'a.test', 'a.test', 'b.test'])).code, 1)
    t.equal((await runCli(['explain', '--rule', 'a.test', 'a.test'])).code, 0)
    t.equal((await runCli(['explain', '--rule', 'a.test', 'b.test'])).code, 1)
  },
)

void tap.test('targets come from standard input, one a line, CRLF or not', async (t) => {
  const { code, stdout } = await runCli(
    ['test', '--json', '--rule', 'a.test', '-'],
    'a.test\r\n\nb.test\n',
  )
  t.equal(code, 1)
  t.strictSame(
    JSON.parse(stdout).map((one: { target: string; verdict: string }) => [one.target, one.verdict]),
    [
      ['a.test', 'allow'],
      ['b.test', 'deny'],
    ],
  )
})

void tap.test('an empty standard input is no target and no failure', async (t) => {
  const { code, stdout } = await runCli(['test', '--json', '--rule', 'a.test', '-'], '')
  t.equal(code, 0)
  t.strictSame(JSON.parse(stdout), [])
})

void tap.test(
  '--resolve asks what if: the address is vetted as an answer of DNS would be',
  async (t) => {
    const table: [resolve: string[], target: string, verdict: string, reason: string][] = [
      [['a.test:10.0.0.5'], 'a.test', 'deny', 'special-address'],
      [['a.test:127.0.0.1'], 'a.test', 'deny', 'special-address'],
      [['a.test:169.254.169.254'], 'a.test', 'deny', 'metadata-address'],
      [['a.test:[::1]'], 'a.test', 'deny', 'special-address'],
      [['a.test:[::ffff:10.0.0.5]'], 'a.test', 'deny', 'special-address'],
      [['a.test:9.9.9.9'], 'a.test', 'allow', 'rule'],
      [['a.test:10.0.0.5', 'a.test:9.9.9.9'], 'a.test', 'allow', 'rule'],
      [['a.test:443:9.9.9.9:8443'], 'a.test:443', 'allow', 'rule'],
      [['vault.test:8200:10.0.0.5'], 'vault.test:8200', 'allow', 'rule'],
      [['vault.test:127.0.0.1'], 'vault.test:8200', 'deny', 'special-address'],
    ]
    const file = policyFile(t)
    for (const [resolve, target, verdict, reason] of table) {
      const flags = resolve.flatMap((one) => ['--resolve', one])
      const { stdout } = await runCli([
        'test',
        '--json',
        '--policy',
        file,
        '--rule',
        'a.test',
        ...flags,
        target,
      ])
      const [answer] = JSON.parse(stdout)
      t.strictSame(
        [answer.verdict, answer.reason, answer.lookup],
        [verdict, reason, 'given'],
        `${target} ${resolve.join()}`,
      )
    }
    const other = await runCli([
      'test',
      '--json',
      '--rule',
      'a.test',
      '--resolve',
      'a.test:80:10.0.0.5',
      'a.test:443',
    ])
    t.equal(
      JSON.parse(other.stdout)[0].lookup,
      'needed',
      'an address for another port is none for this one',
    )
  },
)

void tap.test(
  'failing policy tests make the answer no, and are told on standard error',
  async (t) => {
    const file = policyFile(t, POLICY.replace('git.allowed.test:25', 'git.allowed.test:22'))
    const { code, stdout, stderr } = await runCli(['test', '--policy', file, 'allowed.test'])
    t.equal(code, 1)
    t.match(stdout, /1 of 2 policy tests pass/)
    t.match(
      stderr,
      `${file}:10: expected deny for git.allowed.test:22, but it is allow: rule by git.allowed.test:22`,
    )
  },
)

void tap.test(
  'explain tells every rule that matched, which one won, and the rule that would allow',
  async (t) => {
    const { stdout } = await runCli([
      'explain',
      '--rule',
      '**.a.test',
      '--rule',
      'x.a.test:22',
      '--rule',
      '!x.a.test',
      'x.a.test',
    ])
    t.match(stdout, /^deny: x\.a\.test \(excluded, mode allowlist\)/)
    t.match(stdout, /\*\*\.a\.test {2}--rule:1 {2}overruled/)
    t.match(stdout, /x\.a\.test:22 {2}--rule:2 {2}not for this port/)
    t.match(stdout, /!x\.a\.test {2}--rule:3 {2}won/)
    t.match(stdout, /a rule that would allow it: "x\.a\.test:443"/)
    const json = await runCli(['explain', '--json', '--rule', '**.a.test', 'x.a.test'])
    t.match(JSON.parse(json.stdout), {
      verdict: 'allow',
      lookup: 'needed',
      matched: [
        {
          rule: '**.a.test',
          origin: '--rule:1',
          outcome: 'won',
          meaning: /any name below a\.test/,
        },
      ],
      suggestion: null,
    })
  },
)

void tap.test('lint finds what does nothing, and --strict makes it fail', async (t) => {
  const file = policyFile(
    t,
    `rules:
  - a.test
  - a.test
  - "!**.b.test"
  - x.c.test
  - "!**.c.test"
  - { host: old.test, until: "2020-01-01T00:00:00Z" }
  - "*.github.io"
`,
  )
  const lax = await runCli(['lint', file])
  t.equal(lax.code, 0)
  t.match(lax.stdout, new RegExp(`${file}:2:5: a\\.test never wins.*\\[duplicate\\]`))
  t.match(lax.stdout, /:5:5: x\.c\.test never wins: !\*\*\.c\.test .*\[never-wins\]/)
  t.match(lax.stdout, /:7:5: old\.test ran out.*\[expired\]/)
  t.match(lax.stdout, /:8:5: \*\.github\.io spans a zone.*\[rented-zone\]/)
  t.equal((await runCli(['lint', '--strict', file])).code, 1)
  const json = await runCli(['lint', '--json', file])
  t.strictSame(
    JSON.parse(json.stdout)[0].warnings.map((one: { kind: string }) => one.kind),
    ['duplicate', 'never-wins', 'expired', 'rented-zone'],
  )
})

void tap.test(
  'lint runs the tests of a file and takes several files, presets among them',
  async (t) => {
    const dir = t.testdir({
      'good.yaml': 'rules: [a.test]\n',
      'bad.yaml': 'rules: [a.test]\ntests: { deny: ["a.test"] }\n',
      'broken.yaml': 'rulez: []\n',
      'preset.yaml':
        'name: preset\ndescription: One.\nrules: [{ host: a.test, note: n }]\ntests: { allow: [b.test] }\n',
    })
    const file = (name: string) => path.join(dir, name)
    t.equal((await runCli(['lint', file('good.yaml')])).code, 0)
    t.equal((await runCli(['lint', file('good.yaml'), file('bad.yaml')])).code, 1)
    t.equal((await runCli(['lint', file('preset.yaml')])).code, 1)
    const all = await runCli(['lint', file('good.yaml'), file('bad.yaml'), file('broken.yaml')])
    t.equal(all.code, 3)
    t.match(all.stderr, /unknown key "rulez"; did you mean rules\?/)
  },
)

void tap.test('presets are listed and shown, with what each entry says about itself', async (t) => {
  const list = await runCli(['presets', 'list', '--json'])
  t.equal(list.code, 0)
  const names = JSON.parse(list.stdout).map((one: { name: string }) => one.name)
  t.ok(
    ['iterion-default', 'llm', 'registries', 'forges', 'apt', 'nix', 'none', 'locked-down'].every(
      (one) => names.includes(one),
    ),
  )
  const show = await runCli(['presets', 'show', '--json', 'iterion-default'])
  const shown = JSON.parse(show.stdout)
  t.strictSame(shown.extends, ['llm', 'registries', 'forges', 'apt', 'nix'])
  t.match(shown.rules[0], {
    preset: 'llm',
    host: String,
    ports: String,
    note: String,
    source: String,
    exfiltration: String,
  })
  t.match((await runCli(['presets', 'show', 'nix'])).stdout, /cache\.nixos\.org/)
})

void tap.test('--help and --version answer 0', async (t) => {
  t.equal((await runCli(['--help'])).code, 0)
  t.match((await runCli(['--version'])).stdout, /^\d+\.\d+\.\d+\n$/)
})
