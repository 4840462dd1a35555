import tap from 'tap'
import { type EgressError, formatProblem } from '../../../src/errors.ts'
import { JsoncSource } from '../../../src/sandbox/devcontainer/jsonc-source.ts'

const valueOf = (text: string) => new JsoncSource(text, 'dev.json').value()

/** The problems of a text that is none. */
function problemsOf(text: string): readonly string[] {
  try {
    valueOf(text)
    return []
  } catch (error) {
    return (error as EgressError).problems.map(
      ({ code, message, at }) => `${at?.line}:${at?.column} ${message} [${code}]`,
    )
  }
}

// The case book has a note given for such a comma. None is: editors write them, and no reader differs in what they mean.
void tap.test('D-17: comments and commas at the end are taken', async (t) => {
  const text = '// c\n{\n  /* a */ "image": "x", // y\n  "runArgs": ["--init",],\n}\n'
  t.strictSame(valueOf(text), { image: 'x', runArgs: ['--init'] })
})

// The case book also has a CRLF in the first line of a script explained: that is in test/sandbox/post-create.ts.
void tap.test('D-18: a byte order mark and CRLF are no part of the text', async (t) => {
  const text = '\u{feff}{\r\n  // c\r\n  "image": "x",\r\n  "postCreateCommand": "echo a"\r\n}\r\n'
  t.strictSame(valueOf(text), { image: 'x', postCreateCommand: 'echo a' })
  const source = new JsoncSource(text, 'dev.json')
  source.report('SANDBOX_SPEC_UNSAFE', ['postCreateCommand'], 'no')
  t.match(source.problems, [{ at: { line: 4, column: 24 } }])
  t.equal(source.problems[0]?.sourceLine, '  "postCreateCommand": "echo a"')
  t.strictSame(problemsOf('{"a": 1}\u{feff}').length, 1, 'a mark elsewhere is no JSON')
})

void tap.test('what is no JSON is told with its places, all at once', async (t) => {
  const rows: [text: string, ...problems: string[]][] = [
    ['', '1:1 no JSON: value expected [DEVCONTAINER_INVALID]'],
    ['{', '1:2 no JSON: close brace expected [DEVCONTAINER_INVALID]'],
    ['{}\n{}', '2:1 no JSON: end of file expected [DEVCONTAINER_INVALID]'],
    ['{1: 2}', '1:2 no JSON: property name expected [DEVCONTAINER_INVALID]'],
    ['{"a": \'b\'}', '1:7 no JSON: invalid symbol [DEVCONTAINER_INVALID]'],
    ['{"a": "b\u{0}"}', '1:7 no JSON: invalid character [DEVCONTAINER_INVALID]'],
    ['{"a": NaN}', '1:7 no JSON: invalid symbol [DEVCONTAINER_INVALID]'],
  ]
  for (const [text, ...problems] of rows) {
    t.strictSame(problemsOf(text).slice(0, problems.length), problems, JSON.stringify(text))
  }
  t.equal(problemsOf('{\n"a" 1,\n"b" 2\n}').length, 2)
})

void tap.test('two keys of one name are refused, however they are spelt', async (t) => {
  const twice = ' is given twice [DEVCONTAINER_INVALID]'
  t.strictSame(problemsOf('{"a": 1, "b": {\n"c": 1, "\\u0063": 2}, "\\u0061": 3}'), [
    `2:9 the key "c"${twice}`,
    `2:23 the key "a"${twice}`,
  ])
  t.strictSame(problemsOf('{"__proto__": 1, "__proto__": 2}'), [`1:18 the key "__proto__"${twice}`])
  t.strictSame(valueOf('[{"a": 1}, {"a": 2}]'), [{ a: 1 }, { a: 2 }], 'of one object only')
})

void tap.test('__proto__ is a key like another', async (t) => {
  const value = valueOf('{"__proto__": {"image": "evil"}, "constructor": 1}') as object
  t.strictSame(Object.keys(value), ['__proto__', 'constructor'])
  t.equal((value as { image?: unknown }).image, undefined)
  t.equal(Object.getPrototypeOf(value), Object.prototype)
})

void tap.test('a text with NUL or half of a character is none', async (t) => {
  const place = 'a text with NUL, or with half of a character [DEVCONTAINER_INVALID]'
  t.strictSame(problemsOf('{"a": "x\\u0000"}'), [`1:7 ${place}`])
  t.strictSame(problemsOf('{"a": ["\\ud800"]}'), [`1:8 ${place}`])
  t.strictSame(problemsOf('{"a\\udfff": 1}'), [`1:2 ${place}`])
  t.strictSame(valueOf('"\\ud83d\\ude00 \u{2028} \\u2029"'), '\u{1f600} \u{2028} \u{2029}')
})

void tap.test('a separator of Unicode ends no comment and no line', async (t) => {
  t.strictSame(valueOf('{ // c\u{2028}"image": "evil",\n"image": "x"}'), { image: 'x' })
  t.strictSame(problemsOf('{ // c\u{2029}\n"a": }')[0]?.slice(0, 4), '2:6 ')
})

void tap.test(
  'depth is bounded, by what the parser goes down and not by what a text shows',
  async (t) => {
    const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`
    t.strictSame(problemsOf(nested(64)), [])
    const tooDeep = ['1:1 nested deeper than 64 levels [DEVCONTAINER_INVALID]']
    t.strictSame(problemsOf(nested(65)), tooDeep)
    t.strictSame(problemsOf(`{"a": ${nested(64)}}`), tooDeep)
    t.strictSame(problemsOf('['.repeat(500_000)), tooDeep)
    t.strictSame(problemsOf('[{},'.repeat(100_000)), tooDeep)
    // A bracket that closes what is not open is skipped by the parser: it takes no level away.
    t.strictSame(problemsOf('[},'.repeat(100_000)), tooDeep)
    t.strictSame(problemsOf('{"a":]'.repeat(100_000)).length > 0, true)
    const shown = JSON.stringify({ a: '['.repeat(100) })
    t.strictSame(problemsOf(`// ${'['.repeat(100)}\n/* ${'{'.repeat(100)} */${shown}`), [])
  },
)

void tap.test('a large text is judged in linear time', async (t) => {
  const MIB = 1024 * 1024
  const of = (unit: string) => unit.repeat(MIB / unit.length)
  for (const text of [
    '{"a": "' + of('\\"'),
    of('/*'),
    of('/'),
    `{${of('a ')}`,
    `{${of('"a":1,\n')}}`,
  ]) {
    const started = Date.now()
    t.ok(problemsOf(text).length > 0)
    t.ok(Date.now() - started < 5_000, text.slice(0, 12))
  }
})

void tap.test('problems and messages are bounded', async (t) => {
  t.equal(problemsOf(`{${'"a": 1,'.repeat(1000)}}`).length, 50)
  const source = new JsoncSource('{}', 'dev.json')
  source.report('SANDBOX_SPEC_UNSAFE', [], 'x'.repeat(501))
  source.report('SANDBOX_SPEC_UNSAFE', [], 'x'.repeat(500))
  t.equal(source.problems[0]?.message, `${'x'.repeat(500)}…`)
  t.equal(source.problems[1]?.message, 'x'.repeat(500))
})

void tap.test('a problem stands at the value, or at the nearest one around it', async (t) => {
  const source = new JsoncSource('{\n  "a": [1, {"b": 2}],\n  "c": 3\n}', 'dev.json')
  const paths = [[], ['a'], ['a', 1], ['a', 1, 'b'], ['a', 5], ['d'], ['c', 'x'], ['a', 1, 'z']]
  for (const path of paths) source.report('SANDBOX_SPEC_UNSAFE', path, path.join())
  t.strictSame(
    source.problems.map(({ at, message }) => `${message} ${at?.line}:${at?.column}`),
    [' 1:1', 'a 2:8', 'a,1 2:12', 'a,1,b 2:18', 'a,5 2:8', 'd 1:1', 'c,x 3:8', 'a,1,z 2:12'],
  )
  t.match(formatProblem(source.problems[3] ?? { code: 'INTERNAL', message: '' }), 'dev.json:2:18')
  t.throws(() => source.value(), { code: 'SANDBOX_SPEC_UNSAFE' })
})
