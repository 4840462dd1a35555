import { existsSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import tap from 'tap'
import { gitMounts, removeMade } from '../../src/sandbox/git-mounts.ts'
import type { BindMount } from '../../src/sandbox/mounts.ts'
import { git, makeRepository } from '../support/git-repository.ts'

const at = (source: string, target = source): BindMount => ({ source, target, readOnly: false })

/** Mounts as lines: `rw` or `ro`, and the source below a folder; the target only where it differs. */
function lines(mounts: readonly BindMount[], root: string): string[] {
  return mounts.map(
    ({ source, target, readOnly }) =>
      `${readOnly ? 'ro' : 'rw'} ${source.slice(root.length + 1)}${target === source ? '' : ` ${target}`}`,
  )
}

void tap.test(
  'a plain repository is bound over itself, and what git obeys read-only',
  async (t) => {
    const ws = makeRepository(join(t.testdir(), 'ws'))
    const { mounts, folders, notes, made } = gitMounts(at(ws))
    const expected = ['rw .git', 'rw .git/info', 'ro .git/hooks', 'ro .git/config']
    expected.push('ro .git/config.worktree', 'ro .git/info/attributes')
    t.strictSame(lines(mounts, ws), expected)
    t.strictSame(folders, [join(ws, '.git')])
    t.strictSame(notes, [])
    t.strictSame(
      lines(
        made.map((path) => at(path)),
        ws,
      ),
      ['rw .git/config.worktree', 'rw .git/info/attributes'],
    )
    t.equal(git(ws, 'status', '--porcelain'), '', 'what was made means nothing to git')
    t.strictSame(gitMounts(at(ws)).made, [], 'nothing is made twice')
  },
)

void tap.test('where the workspace is elsewhere inside, so is its git', async (t) => {
  const ws = makeRepository(join(t.testdir(), 'ws'))
  const { mounts } = gitMounts(at(ws, '/w'))
  t.equal(lines(mounts, ws)[2], 'ro .git/hooks /w/.git/hooks')
})

void tap.test('what was made is removed, unless somebody uses it', async (t) => {
  const ws = makeRepository(join(t.testdir(), 'ws'))
  for (const name of ['hooks', 'info']) rmSync(join(ws, '.git', name), { recursive: true })
  const { made } = gitMounts(at(ws))
  t.equal(made.length, 4)
  removeMade(made)
  for (const path of made) t.notOk(existsSync(path), path)
  gitMounts(at(ws))
  writeFileSync(join(ws, '.git/info/attributes'), '* text')
  writeFileSync(join(ws, '.git/hooks/mine'), '')
  removeMade(made)
  t.equal(readFileSync(join(ws, '.git/info/attributes'), 'utf8'), '* text')
  t.ok(existsSync(join(ws, '.git/hooks/mine')))
  t.notOk(existsSync(join(ws, '.git/config.worktree')))
})

void tap.test('no git, no mounts', async (t) => {
  const ws = t.testdir({ a: '' })
  t.strictSame(gitMounts(at(ws)), {
    place: { kind: 'none' },
    mounts: [],
    folders: [],
    notes: [],
    made: [],
  })
})

void tap.test('a linked worktree brings its repository, at its own path', async (t) => {
  const root = t.testdir()
  const main = makeRepository(join(root, 'main'))
  git(main, 'worktree', 'add', '-q', '../tree')
  git(main, 'worktree', 'add', '-q', '../other')
  const { mounts, folders } = gitMounts(at(join(root, 'tree'), '/w'))
  t.strictSame(lines(mounts, root), [
    'ro tree/.git /w/.git',
    'rw main/.git',
    'rw main/.git/info',
    'ro main/.git/hooks',
    'ro main/.git/config',
    'ro main/.git/config.worktree',
    'ro main/.git/info/attributes',
    'ro main/.git/worktrees',
    'rw main/.git/worktrees/tree',
    'ro main/.git/worktrees/tree/commondir',
    'ro main/.git/worktrees/tree/gitdir',
    'ro main/.git/worktrees/tree/config.worktree',
  ])
  t.strictSame(folders, [join(root, 'main/.git')])
})

void tap.test('a worktree entry that leads elsewhere brings nothing', async (t) => {
  const root = t.testdir()
  const main = makeRepository(join(root, 'main'))
  git(main, 'worktree', 'add', '-q', '../tree')
  writeFileSync(join(main, '.git/worktrees/tree/gitdir'), '/elsewhere/.git\n')
  const { mounts, folders, notes } = gitMounts(at(join(root, 'tree')))
  t.strictSame(lines(mounts, root), ['ro tree/.git'])
  t.strictSame(folders, [])
  t.match(notes[0], /not in the sandbox: .* that of another folder/)
})

void tap.test('submodules and repositories inside are read-only', async (t) => {
  const root = t.testdir()
  const other = makeRepository(join(root, 'other'))
  const ws = makeRepository(join(root, 'ws'))
  git(ws, '-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'add', other, 'sub')
  makeRepository(join(ws, 'vendor/lib'))
  const { mounts } = gitMounts(at(ws))
  t.strictSame(lines(mounts, ws).slice(6), ['ro .git/modules', 'ro sub/.git', 'ro vendor/lib/.git'])
  const inSub = gitMounts(at(join(ws, 'sub')))
  t.strictSame(lines(inSub.mounts, ws), ['ro sub/.git'])
  t.match(inSub.notes[0], /as that of a submodule/)
})

void tap.test('a git folder that is not what git makes is only to be read', async (t) => {
  const root = t.testdir({ elsewhere: { config: '' } })
  const rows = [
    ['hooks', '../githooks'],
    ['config', join(root, 'elsewhere/config')],
    ['info', join(root, 'elsewhere')],
    ['objects', join(root, 'elsewhere')],
    ['modules', join(root, 'elsewhere')],
    ['worktrees', '..'],
    ['commondir', undefined],
  ] as const
  for (const [name, target] of rows) {
    const ws = makeRepository(join(root, `ws-${name}`))
    const path = join(ws, '.git', name)
    rmSync(path, { recursive: true, force: true })
    if (target === undefined) writeFileSync(path, '../../elsewhere')
    else symlinkSync(target, path)
    const { mounts, notes, made } = gitMounts(at(ws))
    t.strictSame(lines(mounts, ws), ['ro .git'], name)
    t.match(notes, [new RegExp(`can only be read: ${name}`)], name)
    t.strictSame(made, [], name)
  }
})

void tap.test('a link to a git folder in the workspace guards the folder', async (t) => {
  const ws = makeRepository(join(t.testdir(), 'ws'))
  renameSync(join(ws, '.git'), join(ws, 'meta'))
  symlinkSync('meta', join(ws, '.git'))
  t.match(lines(gitMounts(at(ws)).mounts, ws), ['rw meta', 'rw meta/info', 'ro meta/hooks'])
  rmSync(join(ws, '.git'))
  symlinkSync('/etc', join(ws, '.git'))
  const { mounts, notes } = gitMounts(at(ws))
  t.strictSame(mounts, [])
  t.match(notes, [/leads out of the workspace/])
})
