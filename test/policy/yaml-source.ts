import tap from 'tap'
import { YamlSource } from '../../src/policy/yaml-source.ts'
import { inShort, problemsOf } from '../support/problems-of.ts'
import { cpuTimeMs } from '../support/cpu-time.ts'

type Row = [name: string, text: string, problems: string[], corrections?: (string | undefined)[]]

const TAG = 'POLICY_SYNTAX YAML tags are not allowed: ! starts one unless it is quoted'
const ANCHOR = 'POLICY_SYNTAX YAML anchors are not allowed: & starts one unless it is quoted'
const ALIAS = 'POLICY_SYNTAX YAML aliases are not allowed: * starts one unless it is quoted'

const TABLE: Row[] = [
  ['plain YAML', 'a: [1, "x", {b: c}]\n# fine\nd:\n  - e\n', []],
  [
    'a tag',
    'a:\n  - !evil.test good.test\n',
    [`2:5 ${TAG}`],
    ['- "!evil.test" and on its own line - "good.test"'],
  ],
  ['a tag alone', 'a:\n  - !evil.test\n', [`2:5 ${TAG}`], ['- "!evil.test"']],
  ['a tag before a quoted text', 'a: [x, !y "z !w"]\n', [`1:8 ${TAG}`]],
  ['a tag of the core schema', 'a: !!str x\n', [`1:4 ${TAG}`]],
  ['a tag on the line before its value', 'a: !x\n  b: c\n', [`1:4 ${TAG}`]],
  ['an anchor', 'a:\n  - &x b\n', [`2:5 ${ANCHOR}`], ['- "&x b"']],
  ['an anchor before a list', 'a: &x\n  - b\n', [`1:4 ${ANCHOR}`]],
  ['a tag behind an anchor', 'a: &x !y z\n', [`1:7 ${TAG}`]],
  ['an alias', 'a:\n  - *.evil.test\n', [`2:5 ${ALIAS}`], ['- "*.evil.test"']],
  ['an alias with a comment', 'a:\n  - *.evil.test # all\n', [`2:5 ${ALIAS}`], ['- "*.evil.test"']],
  ['two aliases of one line', 'a: [*x, *y]\nb: *z\n', [`1:5 ${ALIAS}`, `2:4 ${ALIAS}`]],
  [
    'a reserved character',
    'a:\n  - @x\n',
    ['2:5 POLICY_SYNTAX plain value cannot start with reserved character @'],
    ['- "@x"'],
  ],
  ['a merge key', 'a: {<<: {b: c}}\n', ['1:5 POLICY_SYNTAX YAML merge keys are not allowed']],
  ['a key given twice', 'a: 1\nb: 2\na: 3\n', ['3:1 POLICY_SHAPE the key "a" is given twice']],
  [
    'a key given twice further in',
    'a: {b: 1, b: 2}\n',
    ['1:11 POLICY_SHAPE the key "b" is given twice'],
  ],
  [
    'a key that is a list',
    '? [a]\n: b\n',
    ['1:3 POLICY_SYNTAX with stringKeys, all keys must be strings'],
  ],
  ['two documents', 'a: 1\n---\nb: 2\n', ['2:1 POLICY_SYNTAX a file holds one document']],
  ['a directive', '%YAML 1.2\n---\na: 1\n', ['1:1 POLICY_SYNTAX YAML directives are not allowed']],
  [
    'a tag directive',
    '%TAG ! tag:x,2000:\n---\na: 1\n',
    ['1:1 POLICY_SYNTAX YAML directives are not allowed'],
  ],
  ['a quote that does not end', 'a: "x\n', ['2:1 POLICY_SYNTAX missing closing "quote']],
  [
    'a tab for indentation',
    'a:\n\t- b\n',
    ['2:1 POLICY_SYNTAX tabs are not allowed as indentation'],
  ],
]

for (const [name, text, problems, corrections] of TABLE) {
  void tap.test(name, async (t) => {
    const source = new YamlSource(text, 'f.yaml')
    t.strictSame(source.problems.map(inShort), problems)
    if (corrections)
      t.strictSame(
        source.problems.map(({ correction }) => correction),
        corrections,
      )
  })
}

void tap.test('an unknown directive is no harmless warning', async (t) => {
  const source = new YamlSource('%FOO bar\n---\na: 1\n', 'f.yaml')
  t.match(
    source.problems.map(inShort),
    ['1:1 POLICY_SYNTAX'].map((start) => new RegExp(`^${start}`)),
  )
})

void tap.test('an error that breaks the structure ends the reading', async (t) => {
  t.notOk(new YamlSource('a: [b\n', 'f.yaml').isReadable)
  t.ok(new YamlSource('a: [*b]\n', 'f.yaml').isReadable)
})

void tap.test('values come out plain, and an alias stands for nothing', async (t) => {
  const value = new YamlSource(
    'a: {b: [1, true, ~, x]}\n__proto__: {c: 1}\nd: *e\n',
    'f.yaml',
  ).toValue()
  t.strictSame(Object.keys(value as object), ['a', '__proto__', 'd'])
  t.strictSame(JSON.stringify(value), '{"a":{"b":[1,true,null,"x"]},"__proto__":{"c":1},"d":null}')
  t.equal(new YamlSource('', 'f.yaml').toValue(), null)
})

void tap.test('problems point at values, keys, or the nearest thing that is there', async (t) => {
  const source = new YamlSource('a:\n  b: [x, y]\n  c: z\n', 'f.yaml')
  t.strictSame(source.placeOf(['a', 'b', 1]), { file: 'f.yaml', line: 2, column: 10 })
  t.strictSame(source.placeOf(['a', 'b', 7, 'x']), { file: 'f.yaml', line: 2, column: 6 })
  t.strictSame(source.placeOf(['nothing']), { file: 'f.yaml', line: 1, column: 1 })
  source.report('POLICY_RULE', ['a', 'c'], 'at the value', 'w')
  source.reportKey('POLICY_SHAPE', ['a'], 'c', 'at the key')
  source.reportKey('POLICY_SHAPE', ['a'], 'b', 'at the other key')
  source.reportKey('POLICY_SHAPE', [], 'a', 'at the key of another map')
  source.reportKey('POLICY_SHAPE', ['a', 'b', 0], 'q', 'no map')
  t.strictSame(source.problems.map(inShort), [
    '3:6 POLICY_RULE at the value',
    '3:3 POLICY_SHAPE at the key',
    '2:3 POLICY_SHAPE at the other key',
    '1:1 POLICY_SHAPE at the key of another map',
    '2:7 POLICY_SHAPE no map',
  ])
  t.match(source.problems[0], { sourceLine: '  c: z', correction: 'w' })
  source.report('POLICY_RULE', ['a', 'c'], 'at the value')
  t.equal(source.problems.length, 5, 'the same thing is told once')
})

void tap.test('an empty text has a first place', async (t) => {
  t.strictSame(new YamlSource('', 'f.yaml').placeOf([]), { file: 'f.yaml', line: 1, column: 1 })
})

void tap.test('lines are those of the file, without their ends', async (t) => {
  const source = new YamlSource('\ufeffa: 1\r\nb: 2\r\n', 'f.yaml')
  t.equal(source.lineAt(1), 'a: 1')
  t.equal(source.lineAt(2), 'b: 2')
  t.equal(source.lineAt(3), '')
})

void tap.test('what nests deeper than any policy is refused, however deep', async (t) => {
  const texts = [
    '['.repeat(18),
    '['.repeat(100_000),
    '{a: '.repeat(30),
    '- '.repeat(50_000),
    `a: ${'['.repeat(20)}${']'.repeat(20)}`,
  ]
  for (const text of texts) {
    const [problem] = problemsOf(() => new YamlSource(text, 'f.yaml'))
    t.match(
      problem,
      { code: 'POLICY_SYNTAX', message: 'f.yaml: lists and maps nest too deeply' },
      text.slice(0, 10),
    )
  }
})

void tap.test('long lines full of mistakes take no quadratic time', async (t) => {
  for (const item of ['!x y, ', '*x, ', '&x y, ', '!x [], ', '!x !y z, ']) {
    const text = `a: [${item.repeat(10_000)}]\n`
    const started = cpuTimeMs()
    const source = new YamlSource(text, 'f.yaml')
    t.equal(source.problems.length, 1, item)
    t.ok(cpuTimeMs() - started < 9000, `${item} in time`)
  }
})

void tap.test(
  'a character that makes a text read differently than it looks is refused',
  async (t) => {
    const table: readonly (readonly [text: string, place: string, code: string])[] = [
      ['rules:\n  - a.test # x\r  - "!b.a.test"\n', '2:15', 'U+000D'],
      ['# \0\n', '1:3', 'U+0000'],
      ['# \u0085x\n', '1:3', 'U+0085'],
      ['# \u2028x\n', '1:3', 'U+2028'],
      ['# \u202ex\n', '1:3', 'U+202E'],
      ['# \u2066x\n', '1:3', 'U+2066'],
      ['# \x1bx\n', '1:3', 'U+001B'],
    ]
    for (const [text, place, code] of table) {
      const [problem] = new YamlSource(text, 'f.yaml').problems
      t.match(
        problem,
        { code: 'POLICY_SYNTAX', message: `the character ${code} is not allowed` },
        code,
      )
      t.equal(`${problem?.at?.line}:${problem?.at?.column}`, place, code)
    }
    t.strictSame(
      new YamlSource('rules:\r\n\t\r\n  - a.test # \u00e4\r\n', 'f.yaml').problems.length,
      0,
    )
  },
)

void tap.test('a part has paths of its own, and places and problems of the text', async (t) => {
  const source = new YamlSource('a:\n  - {b: 1, c: {d: 2}}\n', 'f.yaml')
  const part = source.part(['a', 0])
  t.strictSame(part.toValue(), { b: 1, c: { d: 2 } })
  t.strictSame([source.base, part.base, part.file], [[], ['a', 0], 'f.yaml'])
  t.ok(part.isReadable)
  t.match(part.placeOf(['c', 'd']), { line: 2, column: 19 })
  t.equal(part.lineAt(2), source.lineAt(2))
  part.report('POLICY_RULE', ['b'], 'one', 'other')
  part.reportKey('POLICY_RULE', [], 'c', 'two')
  t.strictSame(source.problems.map(inShort), ['2:9 POLICY_RULE one', '2:12 POLICY_RULE two'])
  t.equal(part.problems, source.problems)
  t.equal(source.problems[0]?.correction, 'other')
  t.equal(source.part(['x', 'y']).toValue(), null)
})
