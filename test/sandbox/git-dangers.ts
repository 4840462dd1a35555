import { mkdirSync, readFileSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import tap, { type Test } from 'tap'
import { dangersOf, nestedPrint } from '../../src/sandbox/git-dangers.ts'
import { git, makeRepository } from '../support/git-repository.ts'

const EVIL = '[core]\n\tfsmonitor = sh\n'

function put(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text)
}

function repository(t: Test): string {
  return join(makeRepository(join(t.testdir(), 'r')), '.git')
}

void tap.test('a repository as git makes it holds no danger', async (t) => {
  const folder = repository(t)
  t.strictSame(dangersOf(folder), [])
  t.equal(nestedPrint(folder, []), undefined)
  t.equal(nestedPrint(join(folder, 'none'), []), undefined)
})

void tap.test('a print differs when what is there differs', async (t) => {
  const folder = repository(t)
  const prints = ['../x', '../y', '../x'].map((text) => {
    put(join(folder, 'commondir'), text)
    return nestedPrint(folder, [])
  })
  t.equal(prints[0], prints[2])
  t.not(prints[0], prints[1])
})

void tap.test('settings too large to read are a danger', async (t) => {
  const folder = repository(t)
  put(join(folder, 'config'), '#'.repeat(2 * 1024 * 1024))
  t.strictSame(
    dangersOf(folder).map(({ path }) => path),
    [join(folder, 'config')],
  )
})

void tap.test('of what is guarded only that counts which a guard cannot hold', async (t) => {
  const folder = repository(t)
  put(join(folder, 'config'), EVIL)
  put(join(folder, 'hooks/pre-commit'), '')
  put(join(folder, 'commondir'), '../x')
  const names = (isGuarded: boolean) =>
    dangersOf(folder, { isGuarded }).map(({ path }) => path.slice(folder.length + 1))
  t.strictSame(names(false), ['commondir', 'config', 'hooks/pre-commit'])
  t.strictSame(names(true), ['commondir', 'config', 'hooks'])
  const before = dangersOf(folder, { isGuarded: true })
  put(join(folder, 'config'), `${EVIL}[user]\n\tname = Ada\n`)
  put(join(folder, 'hooks/post-commit'), '')
  t.strictSame(dangersOf(folder, { isGuarded: true }), before, 'the host at work')
})

void tap.test('links count, but not among the files of a bare repository', async (t) => {
  const folder = repository(t)
  symlinkSync('/x', join(folder, 'ORIG_HEAD'))
  mkdirSync(join(folder, 'objects/ab'))
  symlinkSync('/x', join(folder, 'objects/ab/cd'))
  t.match(dangersOf(folder), [{ path: join(folder, 'ORIG_HEAD') }])
  t.equal(dangersOf(folder).length, 1)
  t.strictSame(dangersOf(folder, { isBare: true }), [])
})

void tap.test('a .git file is harmless where it leads to a part of a watched folder', async (t) => {
  const folder = repository(t)
  const root = dirname(folder)
  git(root, 'worktree', 'add', '-q', 'tree')
  put(join(folder, 'modules/a/HEAD'), '')
  put(join(folder, 'modules/a/config'), '[core]\n\tworktree = ../../../sub\n')
  put(join(folder, 'modules/a/in/config'), EVIL)
  put(join(folder, 'other/config'), '')
  put(join(folder, 'worktrees/tree/in/commondir'), '../..')
  const rows = [
    ['../.git/worktrees/tree', true],
    ['../.git/modules/a', true],
    ['../.git/modules/a\n', true],
    ['../.git/modules/a/in', false],
    ['../.git/modules', false],
    ['../.git/worktrees', false],
    ['../.git/worktrees/tree/in', false],
    ['../.git/other', false],
    ['../.git', false],
    ['../.git/modules/none', false],
    ['/etc', false],
  ] as const
  for (const [target, isHarmless] of rows) {
    put(join(root, 'sub/.git'), `gitdir: ${target}`)
    t.equal(nestedPrint(join(root, 'sub/.git'), [folder]) === undefined, isHarmless, target)
    t.not(nestedPrint(join(root, 'sub/.git'), []), undefined, `${target}: nothing is watched`)
  }
})

const CACHE_INFO = '100755,e69de29bb2d1d6434b8b29ae775ad8c2e48c5391,-git/hooks/x'

/** An index with an entry in the git folder. */
function oddIndex(t: Test): Buffer {
  const other = makeRepository(join(t.testdirName, 'odd'))
  git(other, 'update-index', '--add', '--cacheinfo', CACHE_INFO)
  const index = readFileSync(join(other, '.git/index'), 'latin1')
  return Buffer.from(index.replace('-git/', '.git/'), 'latin1')
}

void tap.test('an odd index is a danger wherever git reads one', async (t) => {
  const folder = repository(t)
  git(dirname(folder), 'worktree', 'add', '-q', 'tree')
  put(join(folder, 'modules/a/HEAD'), '')
  const odd = oddIndex(t)
  const names = ['index', 'sharedindex.ab', 'worktrees/tree/index', 'modules/a/index']
  for (const name of names) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), odd)
  }
  for (const isGuarded of [false, true]) {
    const dangers = dangersOf(folder, { isGuarded })
    t.strictSame(
      dangers.map(({ path }) => path.slice(folder.length + 1)).toSorted(),
      [...(isGuarded ? ['hooks'] : []), ...names].toSorted(),
    )
  }
  t.not(nestedPrint(folder, []), undefined)
  const before = dangersOf(folder)[0]?.print
  writeFileSync(join(folder, 'index'), Buffer.concat([odd, odd]))
  t.not(dangersOf(folder)[0]?.print, before, 'a print differs')
})

void tap.test('an index too large to read is a danger once it changes', async (t) => {
  const folder = repository(t)
  const index = join(folder, 'index')
  writeFileSync(index, '')
  truncateSync(index, 65 * 1024 * 1024)
  const before = dangersOf(folder)
  t.match(before, [{ path: index }])
  t.strictSame(dangersOf(folder), before)
  truncateSync(index, 66 * 1024 * 1024)
  t.not(dangersOf(folder)[0]?.print, before[0]?.print)
})

void tap.test('an index is read by the object format of its repository', async (t) => {
  const root = t.testdir()
  git(root, 'init', '-q', '--object-format=sha256', 'r')
  const folder = join(root, 'r/.git')
  writeFileSync(join(root, 'r/file'), '')
  git(join(root, 'r'), 'add', '.')
  git(join(root, 'r'), 'commit', '-q', '-m', 'x')
  git(join(root, 'r'), 'worktree', 'add', '-q', 'tree')
  t.strictSame(dangersOf(folder), [])
  put(join(folder, 'config'), '[extensions]\n\tobjectformat = "sha256"\n')
  t.strictSame(
    dangersOf(folder).map(({ path }) => path.slice(folder.length + 1)),
    ['index', 'worktrees/tree/index'],
  )
})

void tap.test("a strategy that is not git's own is a danger", async (t) => {
  const folder = repository(t)
  const isDanger = (name: string, text: string) => {
    put(join(folder, name), text)
    const dangers = dangersOf(folder)
    put(join(folder, name), '')
    return dangers.some(({ path }) => path === join(folder, name))
  }
  const rebase = (text: string) => isDanger('rebase-merge/strategy', text)
  const picks = (text: string) => isDanger('sequencer/opts', text)
  for (const name of ['resolve', 'recursive', 'ort', 'octopus', 'ours', 'subtree']) {
    t.notOk(rebase(name), name)
    t.notOk(rebase(`${name}\n`), name)
    t.notOk(picks(`[options]\n\tstrategy = ${name}\n`), name)
  }
  for (const name of ['x/y', 'x', 'Ort', 'ort/x', '../ort', 'one ort']) {
    t.ok(rebase(`${name}\n`), name)
    t.ok(picks(`[options]\n\tstrategy = ${name}\n`), name)
  }
  t.ok(rebase('ort\nx'))
  t.notOk(isDanger('rebase-merge/strategy_opts', ' x/y\n'))
  t.notOk(picks('[options]\n\tmainline = 1\n\tstrategy-option = a/b\n'))
  const odd = ['[options] strategy = x/y', '[OPTIONS]\nSTRATEGY=x/y', '[options]\nstrategy = "x/y"']
  for (const text of [...odd, '[options]\nstrategy = ort\nstrategy = x/y\n'])
    t.ok(picks(text), text)
})
