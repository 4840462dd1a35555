import { cpSync, mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import tap, { type Test } from 'tap'
import { readGitPlace } from '../../src/sandbox/git-place.ts'
import { git, makeRepository } from '../support/git-repository.ts'

function withWorktree(t: Test) {
  const root = t.testdir()
  const main = makeRepository(join(root, 'main'))
  git(main, 'worktree', 'add', '-q', '../tree')
  const entry = join(main, '.git/worktrees/tree')
  return { root, main, tree: join(root, 'tree'), entry, common: join(main, '.git') }
}

void tap.test('a repository is a folder with a .git folder, or a bare one', async (t) => {
  const root = t.testdir({ empty: {} })
  const plain = makeRepository(join(root, 'plain'))
  git(root, 'init', '-q', '--bare', 'bare.git')
  t.strictSame(readGitPlace(join(root, 'empty')), { kind: 'none' })
  t.strictSame(readGitPlace(plain), { kind: 'plain', folder: join(plain, '.git') })
  t.strictSame(readGitPlace(join(root, 'bare.git')), {
    kind: 'plain',
    folder: join(root, 'bare.git'),
  })
})

void tap.test('a link is followed inside the workspace only', async (t) => {
  const root = t.testdir({ leak: {} })
  const plain = makeRepository(join(root, 'plain'))
  renameSync(join(plain, '.git'), join(plain, 'meta'))
  symlinkSync('meta', join(plain, '.git'))
  t.strictSame(readGitPlace(plain), { kind: 'plain', folder: join(plain, 'meta') })
  for (const target of [join(root, 'leak'), '..', '.', '/etc', 'nothing']) {
    rmSync(join(plain, '.git'))
    symlinkSync(target, join(plain, '.git'))
    t.match(readGitPlace(plain), { kind: 'foreign', reason: /leads out/ }, target)
  }
})

void tap.test('a linked worktree is believed if both ends say so', async (t) => {
  const { tree, entry, common } = withWorktree(t)
  const expected = { kind: 'worktree', entry, common }
  t.strictSame(readGitPlace(tree), expected)
  writeFileSync(join(tree, '.git'), 'gitdir: ../main/.git/worktrees/tree\n')
  writeFileSync(join(entry, 'gitdir'), '../../../../tree/.git\n')
  t.strictSame(readGitPlace(tree), expected, 'relative')
})

void tap.test('a worktree of somebody else is not', async (t) => {
  const { root, main, tree, entry } = withWorktree(t)
  const stranger = join(root, 'stranger')
  cpSync(tree, stranger, { recursive: true })
  t.match(readGitPlace(stranger), { kind: 'foreign', reason: /that of another folder/ })
  const rows = [
    ['gitdir: /etc', /no worktree entry/],
    ['gitdir: /', /no worktree entry/],
    ['gitdir: ../main/.git', /no worktree entry/],
    ['gitdir: ../main/.git/worktrees/none', /not there/],
    ['gitdir: ../main/.git/HEAD', /not there/],
    ['/etc', /names no folder/],
    ['', /names no folder/],
    ['x'.repeat(5000), /names no folder/],
  ] as const
  for (const [text, reason] of rows) {
    writeFileSync(join(stranger, '.git'), text)
    t.match(readGitPlace(stranger), { kind: 'foreign', reason }, text.slice(0, 40))
  }
  writeFileSync(join(entry, 'commondir'), '../../..\n')
  t.match(readGitPlace(tree), { kind: 'foreign', reason: /belongs to no repository/ })
  writeFileSync(join(entry, 'commondir'), '../..\n')
  rmSync(join(main, '.git/config'))
  t.match(readGitPlace(tree), { kind: 'foreign', reason: /belongs to no repository/ })
})

void tap.test('an entry that is no real one is not', async (t) => {
  const root = t.testdir({ victim: { secret: '' }, ws: {} })
  const ws = join(root, 'ws')
  // The sandbox wrote an entry of its own, whose common folder is that of somebody else.
  mkdirSync(join(ws, 'fake/worktrees/x'), { recursive: true })
  writeFileSync(join(ws, 'fake/worktrees/x/gitdir'), `${ws}/.git`)
  writeFileSync(join(ws, 'fake/worktrees/x/commondir'), `${root}/victim`)
  writeFileSync(join(ws, '.git'), 'gitdir: fake/worktrees/x')
  t.match(readGitPlace(ws), { kind: 'foreign', reason: /belongs to no repository/ })
  symlinkSync(`${ws}/fake/worktrees`, join(root, 'victim/worktrees'))
  writeFileSync(join(ws, '.git'), `gitdir: ${root}/victim/worktrees/x`)
  t.match(readGitPlace(ws), { kind: 'foreign', reason: /belongs to no repository/ })
})

void tap.test('a submodule is no worktree', async (t) => {
  const root = t.testdir()
  const other = makeRepository(join(root, 'other'))
  const main = makeRepository(join(root, 'main'))
  git(main, '-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'add', other, 'sub')
  t.match(readGitPlace(join(main, 'sub')), { kind: 'foreign', reason: /as that of a submodule/ })
})
