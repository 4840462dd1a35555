import path from 'node:path'
import tap, { type Test } from 'tap'
import { IGNORED, SILENT } from '../../src/sandbox/devcontainer/keys.ts'
import { loadRepository } from '../../src/sandbox/devcontainer/load-repository.ts'
import { parseMountEntry } from '../../src/sandbox/devcontainer/mount-entry.ts'
import { readRunArgs } from '../../src/sandbox/devcontainer/run-args.ts'
import { expandVariables } from '../../src/sandbox/devcontainer/variables.ts'
import { DENY_CLASS } from '../../src/sandbox/env-deny.ts'
import { OPTION_NAMES } from '../../src/sandbox/mount-text.ts'
import { codes, readPage, sectionOf, tableOf } from '../support/page.ts'

// docs/sandbox.md: what a repository may say, held to the code both ways.

const SECTION = sectionOf(readPage('docs/sandbox.md'), 'What a repository may say')
const table = (head: string) => tableOf(SECTION, head)
const RUN_ARGS = readPage('src/sandbox/devcontainer/run-args.ts')

/** A part of a source file. */
const USER = { uid: process.getuid?.() ?? 0, gid: 0, name: 'ada' }

function partOf(text: string, from: string, to: string): string {
  const start = text.indexOf(from)
  if (start === -1) throw new Error(`no ${from}`)
  return text.slice(start, text.indexOf(to, start))
}

/** The sandbox that a devcontainer.json of these keys defines, beside an image. */
function load(t: Test, more: object) {
  const repository = t.testdir({ '.devcontainer.json': JSON.stringify({ image: 'x', ...more }) })
  const host = { env: { HOME: '/home/ada', USER: 'ada' }, user: USER }
  return loadRepository({ host, repository, workspace: repository, operatorEnv: {} })
}

void tap.test('the keys of the tables are those of the code', async (t) => {
  const read = table('| key that is read | meaning |').flatMap(([key = '']) => codes(key))
  const refused = table('| key that refuses the run | why |').flatMap(([key = '']) =>
    codes(key).filter((one) => one !== 'false'),
  )
  const editors = codes(/what is for editors and people:[\s\S]*?\n\n/.exec(SECTION)?.[0] ?? '')
  t.strictSame([...read, ...refused, ...editors].toSorted(), [...SILENT].toSorted())
})

void tap.test('a key that refuses the run does, for the reason that is told', async (t) => {
  for (const [keys = '', why] of table('| key that refuses the run | why |')) {
    for (const key of codes(keys).filter((one) => one !== 'false')) {
      const { fault } = load(t, { [key]: key === 'privileged' ? true : ['x'] }) ?? {}
      t.match(fault, { code: 'SANDBOX_SPEC_UNSAFE', message: `${key}: ${why}` })
    }
  }
  t.equal(load(t, { privileged: false, capAdd: [], securityOpt: [] })?.fault, undefined)
})

void tap.test('the keys that do nothing are told with their reasons', async (t) => {
  const documented = table('| key that does nothing | why |').flatMap(([keys = '', why = '']) =>
    codes(keys).map((key): [string, string] => [key, why]),
  )
  t.strictSame(Object.fromEntries(documented), { ...IGNORED })
  for (const [key, reason] of documented) {
    t.strictSame(load(t, { [key]: ['x'] })?.devcontainer?.ignored, [{ key, reason }])
  }
})

void tap.test('the keys of a build are those of the code', async (t) => {
  const row = table('| key that is read | meaning |').find(([key]) => key?.startsWith('`build`'))
  const documented = codes(row?.[1] ?? '').map((key) => key.replace('build.', ''))
  const source = readPage('src/sandbox/devcontainer/build-entry.ts')
  const taken = [...partOf(source, 'const KEYS', '])').matchAll(/'(\w+)'/g)].map(([, key]) => key)
  t.strictSame(documented.toSorted(), [...taken, 'cacheFrom'].toSorted())
})

void tap.test('the places of the file are those of the code', async (t) => {
  const source = readPage('src/sandbox/devcontainer/find-devcontainer.ts')
  const places = [...partOf(source, 'const PLACES', ']').matchAll(/'([^']+)'/g)].map(([, one]) => one)
  t.strictSame(codes(SECTION.trim().split('\n\n')[1] ?? '').slice(0, 2), places)
})

/** A value that each flag takes that has one. */
const VALUES: Readonly<Record<string, string>> = {
  '--shm-size': '1gb',
  '--ulimit': 'nofile=1',
  '--cpus': '1',
  '--cpu-shares': '1',
  '-c': '1',
  '--env': 'A=1',
  '-e': 'A=1',
}

void tap.test('the flags that are taken are those of the code, and come out as it is told', async (t) => {
  const rows = table('| flag that is taken | what becomes of it |')
  const flags = rows.flatMap(([cell = '']) => codes(cell))
  const named = partOf(RUN_ARGS, 'const FLAGS', '\n}').matchAll(/^ {2}'?([\w-]+)'?:/gm)
  const short = partOf(RUN_ARGS, 'const SHORT', '\n}').matchAll(/^ {2}(\w):/gm)
  const known = [...[...named].map(([, name]) => `--${name}`), ...[...short].map(([, one]) => `-${one}`)]
  t.strictSame(flags.toSorted(), known.toSorted())
  for (const [cell = '', becomes = ''] of rows) {
    for (const flag of codes(cell)) {
      const alone = readRunArgs([flag])
      const takesValue = alone.refused[0]?.reason === 'its value is missing'
      const args = takesValue ? [flag, VALUES[flag] ?? 'x'] : [flag]
      const { env, user, engineArgs, ignored, refused } = readRunArgs(args)
      t.strictSame(refused, [], flag)
      t.equal(engineArgs.length === 1, becomes.startsWith('handed on'), flag)
      t.equal(ignored.length === 1, becomes.startsWith('nothing:'), flag)
      t.equal(Object.keys(env).length === 1, becomes.startsWith('a variable'), flag)
      t.equal(user !== undefined, becomes.startsWith('who runs'), flag)
    }
  }
  for (const name of codes(rows.find(([cell]) => cell === '`--ulimit`')?.[1] ?? '')) {
    t.strictSame(readRunArgs(['--ulimit', `${name}=1`]).refused, [], name)
  }
})

void tap.test('the flags that are refused are told with their reasons', async (t) => {
  const rows = table('| flag that is refused | why |')
  for (const [cell = '', why] of rows.slice(0, -1)) {
    for (const flag of codes(cell)) t.equal(readRunArgs([flag]).refused[0]?.reason, why, flag)
  }
  t.equal(readRunArgs(['--entrypoint']).refused[0]?.reason, rows.at(-1)?.[1])
  const names = partOf(RUN_ARGS, 'const REASONS', '\n]').matchAll(/\[\[([^\]]*)\]/g)
  t.strictSame(
    rows.slice(0, -1).map(([cell = '']) => codes(cell)),
    [...names].map(([, list = '']) =>
      [...list.matchAll(/'([^']+)'/g)].map(([, name = '']) => (name[1] ? `--${name}` : `-${name}`)),
    ),
  )
})

void tap.test('the variables are filled in as the table says, and no other', async (t) => {
  const rows = table('| variable | stands for |')
  const values = {
    env: { HOME: '/home/ada' },
    operatorEnv: {},
    localWorkspaceFolder: '/l/w',
    containerWorkspaceFolder: '/c/v',
    devcontainerId: 'id',
    containerEnv: {},
  }
  for (const text of rows.flatMap(([cell = '']) => codes(cell))) {
    t.not(expandVariables(text, values).text, text, text)
  }
  const kinds = rows.flatMap(([cell = '']) => codes(cell)).map((one) => /\w+/.exec(one)?.[0])
  const source = readPage('src/sandbox/devcontainer/variables.ts')
  const inCode = source.matchAll(/case '(\w+)'|kind [!=]== '(\w+)'/g)
  t.strictSame(new Set(kinds), new Set([...inCode].map(([, a, b]) => a ?? b)))
  const [open = ''] = /of this machine [^;.]*/.exec(rows[0]?.[1] ?? '') ?? []
  for (const name of codes(open).filter((one) => /^[A-Z]/.test(one))) {
    const given = name.replace('*', 'ALL')
    const { text, withheld } = expandVariables(`\${localEnv:${given}}`, {
      ...values,
      env: { [given]: '/home/ada' },
    })
    t.strictSame([text, withheld], [name === 'HOME' ? 'ada' : '/home/ada', []], name)
  }
  const pattern = /OPEN_NAMES = \/\^\(\?:([^)]*)\)/.exec(source)?.[1] ?? ''
  const inPattern = pattern.replace(String.raw`\w+`, '*').split('|')
  t.strictSame(codes(open).toSorted(), [...inPattern, 'HOME'].toSorted())
})

void tap.test('the mounts are those of the table, with the options of the text', async (t) => {
  const rows = table('| mount | taken |')
  t.strictSame(rows.map(([cell = '']) => cell), ['`type=bind`', '`type=volume`', '`type=tmpfs`', 'any other'])
  for (const type of rows.flatMap(([cell = '']) => codes(cell))) {
    t.notMatch(parseMountEntry(`${type},source=/s,target=/t`), { fault: /./ }, type)
  }
  const [options = ''] = /Its options are [\s\S]*? do nothing\./.exec(SECTION) ?? []
  const source = readPage('src/sandbox/devcontainer/mount-entry.ts')
  const harmless = partOf(source, 'const HARMLESS', '\n}').matchAll(/^ {2}'?([\w-]+)'?:/gm)
  t.strictSame(
    codes(options).toSorted(),
    [...OPTION_NAMES.keys(), ...[...harmless].map(([, name]) => name ?? '')].toSorted(),
  )
})

void tap.test('the deny class is that of the code, row by row', async (t) => {
  t.strictSame(
    table('| variable | why |').map(([names = '', why]) => ({ names: codes(names), reason: why })),
    DENY_CLASS.map(({ names, reason }) => ({ names: [...names], reason })),
  )
})

void tap.test('the bound of the file is that of the code', async (t) => {
  t.match(SECTION, 'up to 1 MiB')
  const file = path.join(t.testdir({ '.devcontainer.json': ' '.repeat(1024 * 1024 + 1) }))
  const question = { host: { env: {}, user: USER }, repository: file, workspace: file, operatorEnv: {} }
  t.match(loadRepository(question)?.fault?.message, /the most is 1 MiB$/)
})

void tap.test('the id of the table has its length', async (t) => {
  const told = /^(\d+) /.exec(table('| variable | stands for |').at(-1)?.[1] ?? '')?.[1]
  const id = load(t, { workspaceFolder: '/${devcontainerId}' })?.devcontainer?.workspaceFolder
  t.equal(id?.length, Number(told) + 1)
})
