import tap from 'tap'
import { runCli } from '../support/run-cli.ts'

void tap.test('explain offers only rules that would help', async (t) => {
  const table: readonly (readonly [argv: string[], offered: string | null])[] = [
    [['--rule', 'a.test', '--resolve', 'a.test:127.0.0.1', 'a.test'], null],
    [['--rule', 'a.test', '--resolve', 'a.test:169.254.169.254', 'a.test'], null],
    [
      ['--rule', 'a.test', '--resolve', 'a.test:10.0.0.5', 'a.test'],
      '{ host: "a.test", ports: [443], private: true }',
    ],
    [['--rule', '!10.0.0.0/8', '[64:ff9b::a00:1]'], null],
    [['--rule', 'a.test', 'b.test'], '"b.test:443"'],
  ]
  for (const [argv, offered] of table) {
    const { stdout } = await runCli(['explain', '--json', ...argv])
    t.equal(JSON.parse(stdout).suggestion, offered, argv.join(' '))
  }
  const { stdout } = await runCli(['explain', '--rule', '127.0.0.1', '127.0.0.1:443'])
  t.match(stdout, /127\.0\.0\.1 {2}--rule:1 {2}does not open what is closed in every mode/)
})

void tap.test('standard input may have very many lines', async (t) => {
  const { code, stdout } = await runCli(
    ['test', '--json', '--rule', 'a.test', '-'],
    'a.test\n'.repeat(200_000),
  )
  t.equal(code, 0)
  t.equal(JSON.parse(stdout).length, 200_000)
})
