import tap from 'tap'
import { type JsonPath, JsoncSource } from '../../../src/sandbox/devcontainer/jsonc-source.ts'
import { ValueReader } from '../../../src/sandbox/devcontainer/value-reader.ts'

function readerOf(written: unknown = {}, operatorEnv: Readonly<Record<string, string>> = {}) {
  return new ValueReader(new JsoncSource(JSON.stringify(written), 'dev.json'), {
    env: { USER: 'ada', SECRET: 'hidden' },
    operatorEnv,
    localWorkspaceFolder: '/src/shop',
    containerWorkspaceFolder: '/src/shop',
    devcontainerId: 'abc',
  })
}
const problemsOf = ({ source }: ValueReader) =>
  source.problems.map(({ code, message }) => `${code} ${message}`)

/** What a method answers, and the problems that it reports. */
function ask<T>(call: (reader: ValueReader) => T): [answer: T, ...problems: string[]] {
  const reader = readerOf()
  return [call(reader), ...problemsOf(reader)]
}

const AT: JsonPath = ['key']
const INVALID = 'DEVCONTAINER_INVALID key'
const UNSAFE = 'SANDBOX_SPEC_UNSAFE key'

void tap.test('a text is one, with its variables filled in', async (t) => {
  t.strictSame(
    ask((r) => r.text(AT, 'x ${localEnv:USER}')),
    ['x ada'],
  )
  t.strictSame(
    ask((r) => r.text(AT, '')),
    [''],
  )
  t.strictSame(
    ask((r) => r.text(AT, undefined)),
    [undefined],
  )
  for (const value of [null, 1, true, {}, ['x']]) {
    t.strictSame(
      ask((r) => r.text(AT, value)),
      [undefined, `${INVALID}: expected a text`],
    )
  }
})

void tap.test('a list is one of texts, each at its own place', async (t) => {
  t.strictSame(
    ask((r) => r.list(AT, ['a', '${localEnv:USER}'])),
    [['a', 'ada']],
  )
  t.strictSame(
    ask((r) => r.list(AT, undefined)),
    [[]],
  )
  t.strictSame(
    ask((r) => r.list(AT, 'a')),
    [[], `${INVALID}: expected a list of texts`],
  )
  t.strictSame(
    ask((r) => r.list(AT, null)),
    [[], `${INVALID}: expected a list of texts`],
  )
  t.strictSame(
    ask((r) => r.list(AT, ['a', 1, 'b'])),
    [['a', '', 'b'], `${INVALID}.1: expected a text`],
  )
})

void tap.test('a text of a form passes its test after the variables are filled in', async (t) => {
  const form = { test: (text: string) => text === 'ada', name: 'the one' }
  t.strictSame(
    ask((r) => r.checked(AT, '${localEnv:USER}', form)),
    ['ada'],
  )
  t.strictSame(
    ask((r) => r.checked(AT, undefined, form)),
    [undefined],
  )
  t.strictSame(
    ask((r) => r.checked(AT, 'x\n', form)),
    [undefined, String.raw`${UNSAFE}: "x\n" is not the one`],
  )
  t.strictSame(
    ask((r) => r.checked(AT, 1, form)),
    [undefined, `${INVALID}: expected a text`],
  )
})

void tap.test('a command is a line, words, or several that run at once', async (t) => {
  const commandsOf = (written: unknown) => ask((reader) => reader.commands(AT, written))
  t.strictSame(commandsOf('npm ci && make'), [['npm ci && make']])
  t.strictSame(commandsOf(['npm', 'ci', '']), [[['npm', 'ci', '']]])
  t.strictSame(commandsOf({ a: 'npm ci', b: ['make', '-j2'] }), [['npm ci', ['make', '-j2']]])
  t.strictSame(commandsOf(undefined), [[]])
  t.strictSame(commandsOf(''), [[]])
  t.strictSame(commandsOf({}), [[]])
  const message = 'a command is a line or a list of words'
  t.strictSame(commandsOf([]), [[], `${INVALID}: ${message}`])
  t.strictSame(commandsOf(['']), [[], `${INVALID}: ${message}`])
  t.strictSame(commandsOf({ a: [''], b: 'x' }), [['x'], `${INVALID}.a: ${message}`])
  t.strictSame(commandsOf(5).slice(1), [`${INVALID}: expected a list of texts`])
  t.strictSame(commandsOf({ a: { b: 'x' } }).slice(1), [`${INVALID}.a: expected a list of texts`])
})

void tap.test('D-36: a command reaches the sandbox as it is written', async (t) => {
  const lines = [
    'for d in a b; do echo $d ${x:-y} $(id -u); done',
    '`id` "$HOME" \\\\ \n# \u{1f600}',
  ]
  for (const line of lines) {
    t.strictSame(
      ask((reader) => reader.commands(AT, line)),
      [[line]],
    )
    t.strictSame(
      ask((reader) => reader.commands(AT, ['sh', '-c', line])),
      [[['sh', '-c', line]]],
    )
  }
})

void tap.test('variables are texts with names, and without control characters', async (t) => {
  const recordOf = (written: unknown) => ask((reader) => reader.record(AT, written))
  t.strictSame(recordOf({ A: '1', b_2: '', _C: 'x\ty=z é' }), [{ A: '1', b_2: '', _C: 'x\ty=z é' }])
  t.strictSame(recordOf(undefined), [{}])
  for (const value of [null, [], 'A=1', 1]) {
    t.strictSame(recordOf(value), [{}, `${INVALID}: expected an object of texts`])
  }
  for (const value of [1, true, null, ['x']]) {
    t.strictSame(recordOf({ A: value, B: 'x' }), [{ B: 'x' }, `${INVALID}.A: expected a text`])
  }
  for (const name of ['A=B', 'C\nD', '-e', '', '1A', 'A B', 'A.B', 'Ä', '__proto__']) {
    t.strictSame(recordOf(Object.fromEntries([[name, 'x']])), [
      {},
      `${UNSAFE}.${name}: ${JSON.stringify(name)} is no name of a variable`,
    ])
  }
  t.strictSame(recordOf({ A: 'x'.repeat(131_070) }), [
    {},
    `${UNSAFE}.A: A is too large: a variable and its name have less than 128 KiB`,
  ])
  for (const value of ['x\ny', 'x\r', '\u{1b}[2J', '\u{7f}', '\u{85}']) {
    t.strictSame(recordOf({ A: value }), [
      {},
      `${UNSAFE}.A: the value of A has a control character`,
    ])
  }
})

void tap.test(
  'a variable is judged after it is filled in, and its name is not filled in',
  async (t) => {
    const reader = readerOf({}, { V: 'x\ny' })
    t.strictSame(reader.record(['containerEnv'], { A: '${localEnv:V}', '${localEnv:V}': '1' }), {})
    t.equal(reader.source.problems.length, 2)
  },
)

void tap.test('only a variable of a process may be taken back, and that is told', async (t) => {
  const reader = readerOf()
  t.strictSame(reader.record(['remoteEnv'], { A: null, B: 'x' }), { B: 'x' })
  t.strictSame(problemsOf(reader), [])
  t.strictSame(reader.ignored, [
    { key: 'remoteEnv.A', reason: 'a variable of the container is not taken back' },
  ])
})

void tap.test('what the variables stand for may change on the way', async (t) => {
  const reader = readerOf()
  t.equal(reader.expand('${containerWorkspaceFolder}'), '/src/shop')
  reader.values = { ...reader.values, containerWorkspaceFolder: '/work' }
  t.equal(reader.expand('${containerWorkspaceFolder}'), '/work')
})

void tap.test('variables of the host that are not given are told once', async (t) => {
  const reader = readerOf()
  reader.text(AT, '${localEnv:SECRET}${localEnv:USER}')
  reader.list(AT, ['${localEnv:OTHER}', '${localEnv:SECRET:x}'])
  t.strictSame(reader.withheld, ['SECRET', 'OTHER'])
})

void tap.test('what is told is bounded', async (t) => {
  const reader = readerOf()
  for (let i = 0; i < 300; i += 1) {
    reader.ignore(`k${i}`, 'no')
    reader.expand(`\${localEnv:N${i}}`)
  }
  t.equal(reader.ignored.length, 100)
  t.equal(reader.withheld.length, 100)
  const long = readerOf()
  long.ignore('k'.repeat(5000), 'no')
  long.expand(`\${localEnv:${'N'.repeat(5000)}}`)
  t.equal(long.ignored[0]?.key.length, 100)
  t.equal(long.withheld[0]?.length, 100)
})

void tap.test('what is told can be shown', async (t) => {
  const reader = readerOf()
  reader.ignore('\u{1b}[2J\u{202e}x', 'no')
  reader.expand('${localEnv:\u{1b}[2J}')
  t.strictSame(reader.ignored, [{ key: String.raw`\u{1b}[2J\u{202e}x`, reason: 'no' }])
  t.strictSame(reader.withheld, [String.raw`\u{1b}[2J`])
})

void tap.test('a problem is told with the way to its value, at its place', async (t) => {
  const reader = readerOf({ a: ['x', 1] })
  reader.unsafe(['a', 1], 'no')
  reader.invalid(['b', 'c'], 'never')
  t.strictSame(problemsOf(reader), [
    'SANDBOX_SPEC_UNSAFE a.1: no',
    'DEVCONTAINER_INVALID b.c: never',
  ])
  t.match(reader.source.problems[0]?.at, { file: 'dev.json', line: 1, column: 11 })
})
