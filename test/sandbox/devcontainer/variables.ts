import tap from 'tap'
import {
  expandVariables,
  type VariableValues,
} from '../../../src/sandbox/devcontainer/variables.ts'

const VALUES: VariableValues = {
  env: {
    USER: 'ada',
    LANG: 'C.UTF-8',
    LC_ALL: 'C',
    TERM: 'xterm',
    TZ: 'UTC',
    HOME: '/home/ada',
    SECRET: 'hidden',
    GIVEN: 'of the caller',
  },
  operatorEnv: { GIVEN: 'of the operator', EMPTY: '' },
  localWorkspaceFolder: '/src/shop',
  containerWorkspaceFolder: '/work/place',
  devcontainerId: 'abc123',
}
const expand = (text: string, more: Partial<VariableValues> = {}) =>
  expandVariables(text, { ...VALUES, ...more })

/** A text and what comes of it, with nothing withheld. */
const ROWS: [text: string, expanded: string][] = [
  ['${localWorkspaceFolder}', '/src/shop'],
  ['${localWorkspaceFolderBasename}', 'shop'],
  ['${containerWorkspaceFolder}', '/work/place'],
  ['${containerWorkspaceFolderBasename}', 'place'],
  ['x-${devcontainerId}-y', 'x-abc123-y'],
  ['${localEnv:USER} ${localEnv:TERM} ${localEnv:LANG}', 'ada xterm C.UTF-8'],
  ['${localEnv:LC_ALL} ${localEnv:TZ}', 'C UTC'],
  ['${localEnv:USER}${localEnv:USER}', 'adaada'],
  ['${localEnv:USER:nobody}', 'ada'],
  ['${localEnv:HOME}', 'ada'],
  ['${localEnv:GIVEN}', 'of the operator'],
  ['${localEnv:EMPTY:default}', ''],
  ['plain $USER $(id) `id` text', 'plain $USER $(id) `id` text'],
  ['', ''],
]

void tap.test('variables are filled in', async (t) => {
  for (const [text, expanded] of ROWS) {
    t.strictSame(expand(text), { text: expanded, withheld: [] }, text)
  }
})

void tap.test('D-21: a default goes up to the closing brace, colons and all', async (t) => {
  const rows = [
    ['${localEnv:NOPE:https://pypi.org/simple}', 'https://pypi.org/simple'],
    ['${localEnv:NOPE:}', ''],
    ['${localEnv:NOPE}', ''],
    ['a${localEnv:NOPE:b:c}d', 'ab:cd'],
    ['${localEnv:NOPE:a b}', 'a b'],
    ['${localEnv:NOPE::}', ':'],
  ] as const
  for (const [text, expanded] of rows) {
    t.strictSame(expand(text), { text: expanded, withheld: ['NOPE'] }, text)
  }
})

void tap.test('D-22: what is no variable stays as it is written', async (t) => {
  const kept = [
    '${env:PATH}',
    '${unknown:x}',
    '${unknown}',
    '$HOME',
    '${localEnv:',
    '${localEnv}',
    '${LOCALENV:USER}',
    '${ localEnv:USER}',
    '${localWorkspaceFolder:x}',
    '${devcontainerId:}',
    '${toString}',
    '${__proto__:x}',
    '${}',
    '${:}',
    // Known only to a container: see the next test.
    '${containerEnv:PATH}',
  ]
  for (const text of kept) t.strictSame(expand(text), { text, withheld: [] }, text)
  t.equal(expand('$${localEnv:USER}').text, '$ada', 'a dollar in front is none of it')
})

void tap.test('the environment of the container is filled in where it is known', async (t) => {
  const containerEnv = { PATH: '/usr/bin', EMPTY: '' }
  const rows = [
    ['/x:${containerEnv:PATH}', '/x:/usr/bin'],
    ['${containerEnv:NOPE}', ''],
    ['${containerEnv:NOPE:a:b}', 'a:b'],
    ['${containerEnv:EMPTY:x}', ''],
    ['${containerEnv:constructor}', ''],
    ['${containerEnv:__proto__:x}', 'x'],
    ['${containerEnv:USER}', ''],
  ] as const
  for (const [text, expanded] of rows) {
    t.strictSame(expand(text, { containerEnv }), { text: expanded, withheld: [] }, text)
  }
})

void tap.test(
  'D-23: of the host only a few variables are told, and that one is not is told',
  async (t) => {
    const names = ['SECRET', 'PATH', 'user', 'USERPROFILE', 'LANGUAGE', 'LC_', 'XLC_ALL', 'HOME/x']
    names.push('SSH_AUTH_SOCK', 'AWS_SECRET_ACCESS_KEY', 'toString', '__proto__', 'USER ', '')
    const env = Object.fromEntries(names.map((name) => [name, 'hidden']))
    for (const name of names) {
      const text = `\${localEnv:${name}}`
      t.strictSame(expand(text, { env }), { text: '', withheld: [name] }, text)
      t.strictSame(
        expand(text, { env: {} }),
        { text: '', withheld: [name] },
        'nor whether it is set',
      )
    }
  },
)

void tap.test(
  'the operator gives what they name, and nothing of the caller’s beside it',
  async (t) => {
    t.equal(expand('${localEnv:SECRET}', { operatorEnv: { SECRET: 'told' } }).text, 'told')
    t.equal(expand('${localEnv:HOME}', { operatorEnv: { HOME: '/srv/x' } }).text, '/srv/x')
    t.equal(expand('${localEnv:TZ:UTC+1}', { env: {} }).text, 'UTC+1', 'not set at all')
    t.equal(expand('${localEnv:HOME:x}', { env: {} }).text, 'x')
  },
)

void tap.test('what comes in by a variable is not looked at again', async (t) => {
  const operatorEnv = { A: '${localWorkspaceFolder}', B: '$', C: '$&$1$`' }
  t.equal(expand('${localEnv:A}', { operatorEnv }).text, '${localWorkspaceFolder}')
  t.equal(expand('${localEnv:B}{localEnv:A}', { operatorEnv }).text, '${localEnv:A}')
  t.equal(expand('${localEnv:C}', { operatorEnv }).text, '$&$1$`', 'nor as a replacement')
  t.equal(expand('${localEnv:NOPE:$}{localEnv:SECRET}').text, '${localEnv:SECRET}')
})

void tap.test(
  'a default has no braces: what is nested is filled in from the inside, once',
  async (t) => {
    t.equal(expand('${localEnv:NOPE:${localEnv:USER}}').text, '${localEnv:NOPE:ada}')
    t.equal(expand('${localEnv:NOPE:{}}').text, '${localEnv:NOPE:{}}')
    t.equal(expand('${${localEnv:USER}}').text, '${ada}')
  },
)

void tap.test('a large text is filled in in linear time', async (t) => {
  for (const unit of ['${', '${localEnv:', '${a', '${localEnv:X}', '}', ':']) {
    const started = Date.now()
    expand(unit.repeat((1024 * 1024) / unit.length))
    t.ok(Date.now() - started < 3_000, unit)
  }
})
