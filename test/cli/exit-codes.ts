import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { runCli } from '../support/run-cli.ts'

void tap.test('a failure under --json is one object with code, message and place', async (t) => {
  const file = path.join(t.testdir(), 'policy.yaml')
  writeFileSync(file, 'mode: openn\n')
  const { code, stdout } = await runCli(['test', '--json', '--policy', file, 'x.test'])
  t.equal(code, 3)
  t.match(JSON.parse(stdout), {
    error: { code: 'POLICY_SHAPE', message: /mode is "openn"/, at: { file, line: 1, column: 7 } },
  })
  const usage = await runCli(['test', '--json', 'x.test'])
  t.equal(usage.code, 2)
  t.match(JSON.parse(usage.stdout), {
    error: { code: 'USAGE', message: /name a policy/, at: null },
  })
  const option = await runCli(['test', '--json', '--nope'])
  t.equal(option.code, 2)
  t.match(JSON.parse(option.stdout), {
    error: { code: 'USAGE', message: /unknown option '--nope'/, at: null },
  })
})

void tap.test('bad input gets the code of its kind and says what to do', async (t) => {
  const dir = t.testdir({
    'latin1.yaml': Buffer.from('note: caf\xe9\n', 'latin1'),
    'ok.yaml': 'rules: []\n',
  })
  mkdirSync(path.join(dir, 'folder'))
  const table: [argv: string[], code: number, message: RegExp][] = [
    [['test', '--policy', path.join(dir, 'none.yaml'), 'x'], 3, /none\.yaml: no such file/],
    [['test', '--policy', path.join(dir, 'folder'), 'x'], 3, /folder: is a directory/],
    [['test', '--policy', path.join(dir, 'latin1.yaml'), 'x'], 3, /not UTF-8 at byte 10/],
    [['test', '--preset', 'iterion-defualt', 'x'], 2, /did you mean iterion-default/],
    [['test', '--rule', '*.com', 'x'], 2, /--rule "\*\.com" is as wide as a public suffix/],
    [['test', '--rule', 'a.test:0', 'x'], 2, /no port/],
    [['test', '--mode', 'closed', 'x'], 2, /allowlist, denylist, open/],
    [['test', '--rule', 'a.test', '--resolve', 'a.test', 'x'], 2, /the form is HOST/],
    [['test', '--rule', 'a.test', '--resolve', 'a.test:300.1.1.1', 'x'], 2, /no address/],
    [['test', '--rule', 'a.test', '--resolve', '1.2.3.4:1.2.3.4', 'x'], 2, /needs a name/],
    [['test', '--rule', 'a.test'], 2, /name a target/],
    [['test', 'x'], 2, /name a policy/],
    [['lint'], 2, /name a file/],
    [['presets', 'show', 'nope'], 2, /there is no preset "nope"/],
    [['presets', 'list', '--preset-dir', path.join(dir, 'gone')], 3, /cannot be read/],
    [['schema', 'nope'], 2, /policy, preset, events/],
    [['serve'], 2, /name a policy/],
    [['serve', '--rule', 'a.test', '--listen', 'here'], 2, /HOST:PORT/],
    [['serve', '--rule', 'a.test', '--listen', '127.0.0.1:99999'], 2, /HOST:PORT/],
    [['serve', '--rule', 'a.test', '--token', ''], 2, /the token is empty/],
    [['serve', '--rule', 'a.test', '--token', 'a b'], 2, /the token has characters/],
    [['serve', '--rule', 'a.test', '--listen', '0.0.0.0:0'], 2, /without a token/],
    [['serve', '--rule', 'a.test', '--listen', '[::]:0'], 2, /without a token/],
    [['serve', '--rule', 'a.test', '--limit', 'maxTunnels'], 2, /NAME=NUMBER/],
    [['serve', '--rule', 'a.test', '--limit', 'maxTunels=3'], 2, /there is no limit "maxTunels"/],
    [['serve', '--rule', 'a.test', '--events', dir], 4, /event log cannot be opened/],
    [['serve', '--rule', 'a.test', '--token', 'a', '--token-file', 'b'], 2, /either/],
    ...['0', '-1', '1.5', 'abc', '65', '', '1e1', '007'].map(
      (workers): [string[], number, RegExp] => [
        ['serve', '--rule', 'a.test', `--workers=${workers}`],
        2,
        new RegExp(`--workers "${workers}": give a whole number from 1 to 64`),
      ],
    ),
    [['bogus'], 2, /unknown command 'bogus'/],
  ]
  for (const [argv, code, message] of table) {
    const result = await runCli(argv)
    t.equal(result.code, code, argv.join(' '))
    t.match(result.stderr, message, argv.join(' '))
  }
})

void tap.test('lint --json of a file that does not load is a failure like any other', async (t) => {
  const file = path.join(t.testdir({ 'bad.yaml': 'rulez: []\nmode: x\n' }), 'bad.yaml')
  const { code, stdout } = await runCli(['lint', '--json', file])
  t.equal(code, 3)
  const answer = JSON.parse(stdout)
  t.match(answer, { error: { code: 'POLICY_SHAPE', message: String, at: { file, line: 1 } } })
  t.equal(answer.error.problems.length, 2)
  t.equal(answer.files[0].problems.length, 2)
})
