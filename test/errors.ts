import { readFileSync } from 'node:fs'
import tap from 'tap'
import {
  EgressError,
  ERROR_MEANINGS,
  escapeControls,
  formatProblem,
  problemsError,
} from '../src/errors.ts'

void tap.test('an error carries code, place, problems and cause', async (t) => {
  const at = { file: 'a.yaml', line: 1, column: 2 }
  const cause = new Error('below')
  const error = new EgressError('USAGE', 'no', { cause, at })
  t.match(error, { name: 'EgressError', code: 'USAGE', message: 'no', at, cause, problems: [] })
  const bare = new EgressError('INTERNAL', 'oh')
  t.equal(bare.at, undefined)
  t.notOk('cause' in bare)
})

void tap.test('the error of a file speaks with its first problem and keeps all', async (t) => {
  const at = { file: 'a.yaml', line: 3, column: 1 }
  const problems = [
    { code: 'POLICY_PATTERN', message: 'first', at },
    { code: 'POLICY_RULE', message: 'second' },
  ] as const
  t.match(problemsError(problems), { code: 'POLICY_PATTERN', message: 'first', at, problems })
  t.equal(problemsError(problems.slice(1)).at, undefined)
  t.throws(() => problemsError([]), TypeError)
})

void tap.test('a problem is shown with place, source line, caret and correction', async (t) => {
  const at = { file: 'a.yaml', line: 3, column: 5 }
  t.equal(
    formatProblem({
      code: 'POLICY_PATTERN',
      message: 'no path',
      at,
      sourceLine: '  - a.test/x',
      correction: '"a.test"',
    }),
    [
      'a.yaml:3:5: no path [POLICY_PATTERN]',
      '      - a.test/x',
      '        ^',
      '    write instead: "a.test"',
    ].join('\n'),
  )
  t.equal(formatProblem({ code: 'USAGE', message: 'no' }), 'no [USAGE]')
  t.equal(
    formatProblem({ code: 'USAGE', message: 'no', sourceLine: 'x' }),
    'no [USAGE]',
    'a line without a place',
  )
})

void tap.test('the caret of a long line stays in sight and under its character', async (t) => {
  const sourceLine = `${'x'.repeat(500)}!${'y'.repeat(500)}`
  const text = formatProblem({
    code: 'POLICY_SYNTAX',
    message: 'here',
    at: { file: 'f', line: 1, column: 501 },
    sourceLine,
  })
  const [, shown = '', caret = ''] = text.split('\n')
  t.equal(shown[caret.indexOf('^')], '!')
  t.ok(shown.length < 130)
})

void tap.test(
  'nothing that is shown can move the cursor, hide or turn round the text',
  async (t) => {
    const evil = 'a\u001b[2J\u202eb\u200bc\ud800'
    const text = formatProblem({
      code: 'POLICY_PATTERN',
      message: evil,
      at: { file: evil, line: 1, column: 2 },
      sourceLine: evil,
      correction: evil,
    })
    t.notMatch(text.replaceAll('\n', ''), /[\p{Cc}\p{Cf}\p{Cs}]/u)
    t.equal(text.split('\\u{1b}').length, 5)
    t.equal(escapeControls('a\tb\u2028'), 'a\\u{9}b\\u{2028}')
    t.equal(escapeControls('bücher ☕'), 'bücher ☕')
  },
)

void tap.test('an escape before the caret moves the caret along', async (t) => {
  const text = formatProblem({
    code: 'POLICY_SYNTAX',
    message: 'here',
    at: { file: 'f', line: 1, column: 3 },
    sourceLine: '\ta!b',
  })
  const [, shown = '', caret = ''] = text.split('\n')
  t.equal(shown[caret.indexOf('^')], '!')
})

void tap.test('docs/errors.md has every code with its meaning, and no other', async (t) => {
  const text = readFileSync(new URL('../docs/errors.md', import.meta.url), 'utf8')
  const rows = [...text.matchAll(/^\| `([A-Z_]+)` \| ([^|]+) \| ([^|]+) \|$/gm)]
  const documented = Object.fromEntries(rows.map(([, code = '', meaning = '']) => [code, meaning]))
  t.strictSame(documented, { ...ERROR_MEANINGS })
  t.equal(rows.length, Object.keys(ERROR_MEANINGS).length, 'no code stands twice')
  for (const [, code, , remedy = ''] of rows) t.ok(remedy.length > 20, `${code} says what to do`)
})
