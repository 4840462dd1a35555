import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
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
