import path from 'node:path'
import tap, { type Test } from 'tap'
import { parsePolicy } from '../../src/policy/parse.ts'
import { createCatalog } from '../../src/presets/catalog.ts'
import { composePolicy, expandPreset } from '../../src/presets/compose.ts'
import { ruleOf } from '../support/policy-of.ts'
import { inShort, problemsOf } from '../support/problems-of.ts'
import { cpuTimeMs } from '../support/cpu-time.ts'

const preset = (name: string, parents: string[] = [], body = '') =>
  `name: ${name}\ndescription: For a test.\nextends: [${parents.join()}]\nrules: [${name}.test]\n${body}`

function catalogOf(t: Test, presets: Record<string, string>) {
  const files = Object.entries(presets).map(([name, text]) => [`${name}.yaml`, text])
  return createCatalog({ dirs: [t.testdir(Object.fromEntries(files) as Record<string, string>)] })
}

void tap.test('rules come in the order presets, file, by hand', async (t) => {
  const catalog = catalogOf(t, { 'x-a': preset('x-a', ['x-b']), 'x-b': preset('x-b'), 'x-c': preset('x-c') })
  const source = parsePolicy('mode: open\npresets: [x-a]\nrules: [own.test]\nquiet: [q.test]\nlimits: {maxTunnels: 3}\ntests: {allow: [own.test]}\n', 'p.yaml')
  const { policy, tests } = composePolicy({ source, presets: ['x-c', 'x-a'], rules: [ruleOf('hand.test')] }, catalog)
  t.strictSame(policy.rules.map(({ text }) => text), ['x-c.test', 'x-b.test', 'x-a.test', 'own.test', 'hand.test'])
  t.strictSame(policy.rules.map(({ place }) => place), [0, 1, 2, 3, 4])
  t.match(policy, { mode: 'open', limits: { maxTunnels: 3 } })
  t.equal(policy.quiet.buckets('q.test').length, 1)
  t.equal(tests.length, 1)
})

void tap.test('without a file there is an allowlist of what is given', async (t) => {
  const { policy, tests } = composePolicy({ rules: [ruleOf('a.test')] }, createCatalog())
  t.match(policy, { mode: 'allowlist', rules: [{ text: 'a.test' }] })
  t.strictSame(tests, [])
  const source = parsePolicy('mode: open', 'p.yaml')
  t.equal(composePolicy({ source, mode: 'allowlist' }, createCatalog()).policy.mode, 'allowlist')
})

void tap.test('a preset that comes twice keeps its first place', async (t) => {
  const catalog = catalogOf(t, { 'x-a': preset('x-a', ['x-c']), 'x-b': preset('x-b', ['x-c']), 'x-c': preset('x-c') })
  t.strictSame(
    composePolicy({ presets: ['x-a', 'x-b', 'x-c'] }, catalog).policy.rules.map(({ text }) => text),
    ['x-c.test', 'x-a.test', 'x-b.test'],
  )
  t.strictSame(expandPreset('x-b', catalog).map(({ name }) => name), ['x-c', 'x-b'])
})

void tap.test('a ring is told with the way round, from wherever it is entered', async (t) => {
  const catalog = catalogOf(t, { 'x-a': preset('x-a', ['x-b']), 'x-b': preset('x-b', ['x-c']), 'x-c': preset('x-c', ['x-b']) })
  t.match(problemsOf(() => composePolicy({ presets: ['x-a'] }, catalog)).map(inShort), [/3:11 PRESET_CYCLE .*: x-b -> x-c -> x-b$/])
  t.match(problemsOf(() => expandPreset('x-c', catalog)).map(inShort), [/PRESET_CYCLE .*: x-c -> x-b -> x-c$/])
})

void tap.test('presets that all extend each other are told in no time', async (t) => {
  const names = Array.from({ length: 14 }, (_, i) => `x-${i}`)
  const catalog = catalogOf(t, Object.fromEntries(names.map((name) => [name, preset(name, names)])))
  const started = cpuTimeMs()
  t.ok(problemsOf(() => expandPreset('x-0', catalog)).length > 10)
  t.ok(cpuTimeMs() - started < 6000)
})

void tap.test('all that is wrong with presets is told at once', async (t) => {
  const catalog = catalogOf(t, { 'x-a': preset('x-a', [], 'mode: open\n'), 'x-b': preset('x-b', ['x-none']), 'x-c': 'name: y\ndescription: z\n' })
  const source = parsePolicy('presets: [x-a, x-b, x-c, x-none]\n', 'p.yaml')
  const found = problemsOf(() => composePolicy({ source, presets: ['nothing-like-it'] }, catalog)).map(inShort)
  t.match(found, [/nothing-like-it/, /unknown key "mode"/, /no preset "x-none"/, /calls itself y/, /no preset "x-none"/])
})

void tap.test('in denylist mode presets are refused, except none', async (t) => {
  const catalog = createCatalog()
  const source = parsePolicy('mode: denylist\npresets: [none, llm]\n', 'p.yaml')
  t.match(problemsOf(() => composePolicy({ source, presets: ['apt'] }, catalog)), [
    { code: 'POLICY_RULE', message: /^the preset apt allows/ },
    { code: 'POLICY_RULE', message: /^the preset llm allows/, at: { line: 2, column: 17 }, sourceLine: 'presets: [none, llm]' },
  ])
})

void tap.test('a rule that could do nothing is shown with its line', async (t) => {
  const source = parsePolicy('mode: denylist\nrules: [a.test]\n', 'p.yaml')
  t.match(problemsOf(() => composePolicy({ source, rules: [ruleOf('b.test')] }, createCatalog())), [
    { at: { line: 2, column: 9 }, sourceLine: 'rules: [a.test]' },
    { at: { file: 'policy.yaml' }, sourceLine: undefined },
  ])
})

void tap.test('what is no error of ours passes through', async (t) => {
  const broken = { ...createCatalog(), get: () => { throw new TypeError('ours') } }
  t.throws(() => composePolicy({ presets: ['x'] }, broken), TypeError)
  t.throws(() => composePolicy({ source: parsePolicy('presets: [x]', 'p.yaml') }, broken), TypeError)
  t.throws(() => composePolicy({ presets: [path.join(t.testdir(), 'no.yaml')] }, createCatalog()), { code: 'FILE_UNREADABLE' })
})
