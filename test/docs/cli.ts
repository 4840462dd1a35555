import { readFileSync } from 'node:fs'
import tap from 'tap'
import { runCli } from '../support/run-cli.ts'

const text = readFileSync(new URL('../../docs/cli.md', import.meta.url), 'utf8')

void tap.test('the help in docs/cli.md is what the commands print', async (t) => {
  const blocks = text.matchAll(/^## (.+)\n[\s\S]*?```text\n([\s\S]*?)```/gm)
  const documented: string[] = []
  for (const [, title = '', block = ''] of blocks) {
    const argv = title === 'iterion-egress' ? [] : title.split(' ')
    documented.push(title)
    const { stdout } = await runCli([...argv, '--help'])
    t.equal(block, stdout, title)
  }
  t.strictSame(documented, [
    'iterion-egress',
    'serve',
    'test',
    'explain',
    'lint',
    'presets',
    'presets list',
    'presets show',
    'run',
    'wrap',
    'plan',
    'doctor',
    'resume',
    'runs',
    'runs list',
    'runs show',
    'runs stop',
    'reap',
    'schema',
  ])
})

void tap.test('every command has its section', async (t) => {
  const { stdout } = await runCli(['--help'])
  const names = [...stdout.matchAll(/^ {2}([a-z]+)(?: .*)? {2}\S/gm)].map(([, name]) => name)
  t.ok(names.length > 8, names.join())
  for (const name of names.filter((one) => one !== 'help')) t.match(text, `\n## ${name}\n`)
})
