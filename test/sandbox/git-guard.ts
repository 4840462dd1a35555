import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import tap from 'tap'
import { putAside, snapshotGit } from '../../src/sandbox/git-guard.ts'
import { git, makeRepository } from '../support/git-repository.ts'

const EVIL = '[core]\n\tfsmonitor = sh\n'

function put(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text)
}

function putLink(path: string, target: string): void {
  mkdirSync(dirname(path), { recursive: true })
  rmSync(path, { recursive: true, force: true })
  symlinkSync(target, path)
}

void tap.test('what makes git run or read something else is put aside', async (t) => {
  const root = t.testdir({ elsewhere: { info: { alternates: 'of somebody else' } } })
  const evil = (ws: string, name: string) => {
    makeRepository(join(ws, name))
    put(join(ws, name, '.git/config'), EVIL)
  }
  const rows: readonly [string, string, (ws: string) => void][] = [
    ['commondir', '.git/commondir', (ws) => put(join(ws, '.git/commondir'), '../x')],
    [
      'alternates',
      '.git/objects/info/alternates',
      (ws) => put(join(ws, '.git/objects/info/alternates'), '/x'),
    ],
    ['objects', '.git/objects', (ws) => putLink(join(ws, '.git/objects'), join(root, 'elsewhere'))],
    ['log', '.git/logs/HEAD', (ws) => putLink(join(ws, '.git/logs/HEAD'), join(root, 'x'))],
    ['logs', '.git/logs', (ws) => putLink(join(ws, '.git/logs'), join(root, 'elsewhere'))],
    [
      'message',
      '.git/COMMIT_EDITMSG',
      (ws) => putLink(join(ws, '.git/COMMIT_EDITMSG'), join(root, 'x')),
    ],
    [
      'ref',
      '.git/refs/heads',
      (ws) => putLink(join(ws, '.git/refs/heads'), join(root, 'elsewhere')),
    ],
    [
      'rebase',
      '.git/rebase-merge/git-rebase-todo',
      (ws) => put(join(ws, '.git/rebase-merge/git-rebase-todo'), 'pick 1\n x evil\n'),
    ],
    ['module', '.git/modules/a/b/config', (ws) => put(join(ws, '.git/modules/a/b/config'), EVIL)],
    [
      'module-hook',
      '.git/modules/a/hooks/pre-commit',
      (ws) => {
        put(join(ws, '.git/modules/a/HEAD'), '')
        put(join(ws, '.git/modules/a/hooks/pre-commit'), '')
      },
    ],
    [
      'entry',
      '.git/worktrees/w/commondir',
      (ws) => put(join(ws, '.git/worktrees/w/commondir'), '../../../x'),
    ],
    [
      'entry-config',
      '.git/worktrees/w/config.worktree',
      (ws) => put(join(ws, '.git/worktrees/w/config.worktree'), EVIL),
    ],
    ['nested', 'sub/.git', (ws) => evil(ws, 'sub')],
    ['nested-deep', 'a/b/c/.git', (ws) => evil(ws, 'a/b/c')],
    [
      'nested-case',
      'sub/.GIT',
      (ws) => {
        evil(ws, 'sub')
        renameSync(join(ws, 'sub/.git'), join(ws, 'sub/.GIT'))
      },
    ],
    [
      'nested-hook',
      'sub/.git',
      (ws) => {
        makeRepository(join(ws, 'sub'))
        put(join(ws, 'sub/.git/hooks/post-checkout'), '')
      },
    ],
    ['nested-file', 'sub/.git', (ws) => put(join(ws, 'sub/.git'), 'gitdir: ../x')],
    ['nested-link', 'sub/.git', (ws) => putLink(join(ws, 'sub/.git'), '../x')],
    [
      'nested-in-git',
      'sub/.git',
      (ws) => {
        put(join(ws, '.git/modules/a/HEAD'), '')
        put(join(ws, '.git/modules/a/evil/config'), EVIL)
        put(join(ws, 'sub/.git'), 'gitdir: ../.git/modules/a/evil')
      },
    ],
    [
      'bare',
      'sub/config',
      (ws) => {
        git(ws, 'init', '-q', '--bare', 'sub')
        put(join(ws, 'sub/config'), EVIL)
      },
    ],
  ]
  for (const [name, path, attack] of rows) {
    const ws = makeRepository(join(root, `ws-${name}`))
    const before = snapshotGit(ws)
    t.strictSame(putAside(before, 'r1').moved, [], `${name}: nothing happened`)
    attack(ws)
    const { moved, failed, snapshot } = putAside(before, 'r1')
    const expected = { path: join(ws, path), to: join(ws, `${path}.sandboxed-r1`) }
    t.strictSame({ moved, failed }, { moved: [expected], failed: [] }, name)
    t.ok(lstatSync(expected.to), `${name}: it is kept`)
    t.strictSame(putAside(snapshot, 'r1').moved, [], `${name}: once`)
    t.equal(readFileSync(join(root, 'elsewhere/info/alternates'), 'utf8'), 'of somebody else')
  }
})

void tap.test('what was there before stays, and is put aside when it changes', async (t) => {
  const ws = makeRepository(join(t.testdir(), 'ws'))
  makeRepository(join(ws, 'sub'))
  put(join(ws, 'sub/.git/config'), EVIL)
  put(join(ws, '.git/objects/info/alternates'), '/x\n')
  put(join(ws, '.git/hooks/pre-commit'), 'mine')
  put(join(ws, '.git/config'), EVIL)
  const before = JSON.parse(JSON.stringify(snapshotGit(ws))) as ReturnType<typeof snapshotGit>
  t.strictSame(putAside(before, 'r1').moved, [])
  put(join(ws, 'sub/.git/config'), `${EVIL}# more`)
  put(join(ws, '.git/objects/info/alternates'), '/y\n')
  t.strictSame(
    putAside(before, 'r1').moved.map(({ path }) => path.slice(ws.length)),
    ['/.git/objects/info/alternates', '/sub/.git'],
  )
})

void tap.test('a guard that the host itself took away is made up for', async (t) => {
  const ws = makeRepository(join(t.testdir(), 'ws'))
  git(ws, 'config', 'alias.st', '!mine')
  put(join(ws, '.git/hooks/pre-commit'), 'mine')
  const before = snapshotGit(ws)
  // The operator at work beside the sandbox: git writes a new file in the place of the old.
  git(ws, 'config', 'user.name', 'Ada')
  put(join(ws, '.git/hooks/post-commit'), 'mine')
  t.strictSame(putAside(before, 'r1').moved, [])
  // The sandbox, to whom that file is not read-only.
  put(join(ws, '.git/config'), `${readFileSync(join(ws, '.git/config'), 'utf8')}${EVIL}`)
  renameSync(join(ws, '.git/hooks'), join(ws, '.git/old'))
  put(join(ws, '.git/hooks/pre-commit'), 'evil')
  t.strictSame(
    putAside(before, 'r1').moved.map(({ path }) => path.slice(ws.length)),
    ['/.git/config', '/.git/hooks'],
  )
})

void tap.test('work as usual is left alone', async (t) => {
  const root = t.testdir()
  const other = makeRepository(join(root, 'other'))
  const ws = makeRepository(join(root, 'ws'))
  const before = snapshotGit(ws)
  put(join(ws, 'a.txt'), 'a')
  git(ws, 'add', '.')
  git(ws, 'commit', '-q', '-m', 'second')
  git(ws, 'checkout', '-q', '-b', 'topic')
  put(join(ws, 'a.txt'), 'b')
  git(ws, 'stash', '-q')
  git(ws, 'tag', 'hooks')
  git(ws, 'branch', 'config')
  git(ws, 'clone', '-q', other, 'vendor/clone')
  git(ws, 'init', '-q', 'scaffold')
  git(ws, 'worktree', 'add', '-q', 'trees/one')
  git(ws, '-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'add', other, 'sub')
  git(ws, 'gc', '-q')
  t.strictSame(putAside(before, 'r1'), { moved: [], failed: [], snapshot: before })
})

void tap.test(
  'a workspace without git may become a harmless repository, and no other',
  async (t) => {
    const ws = t.testdir({ a: '' })
    const before = snapshotGit(ws)
    git(ws, 'init', '-q')
    t.strictSame(putAside(before, 'r1').moved, [])
    put(join(ws, '.git/config'), EVIL)
    t.match(putAside(before, 'r1').moved, [{ path: join(ws, '.git') }])
    put(join(ws, '.git'), 'gitdir: /x')
    t.match(putAside(before, 'r1').moved, [{ to: join(ws, '.git.sandboxed-r1-2') }])
  },
)

void tap.test('a .git of another kind than before is put aside', async (t) => {
  const ws = makeRepository(join(t.testdir(), 'ws'))
  const before = snapshotGit(ws)
  renameSync(join(ws, '.git'), join(ws, 'old'))
  put(join(ws, '.git'), 'gitdir: old')
  t.match(putAside(before, 'r1').moved, [{ path: join(ws, '.git') }])
  symlinkSync('old', join(ws, '.git'))
  t.match(putAside(before, 'r2').moved, [{ path: join(ws, '.git') }])
})

void tap.test('a name that is no UTF-8 hides nothing', async (t) => {
  const ws = makeRepository(join(t.testdir(), 'ws'))
  const before = snapshotGit(ws)
  const hidden = Buffer.concat([Buffer.from(`${ws}/`), Buffer.from([0xff, 0xfe])])
  mkdirSync(hidden)
  const evil = join(ws, 'evil')
  makeRepository(evil)
  put(join(evil, '.git/config'), EVIL)
  renameSync(join(evil, '.git'), Buffer.concat([hidden, Buffer.from('/.git')]))
  t.equal(putAside(before, 'r1').moved.length, 1)
  t.notOk(existsSync(Buffer.concat([hidden, Buffer.from('/.git')])))
})

void tap.test('nothing is put aside through a link', async (t) => {
  const root = t.testdir({ elsewhere: { alternates: 'a' } })
  const ws = makeRepository(join(root, 'ws'))
  putLink(join(ws, '.git/objects/info'), join(root, 'elsewhere'))
  const before = snapshotGit(ws)
  writeFileSync(join(root, 'elsewhere/alternates'), 'b')
  t.strictSame(putAside(before, 'r1').moved, [])
  t.equal(readFileSync(join(root, 'elsewhere/alternates'), 'utf8'), 'b')
})

void tap.test('a linked worktree watches its repository', async (t) => {
  const root = t.testdir()
  const main = makeRepository(join(root, 'main'))
  git(main, 'worktree', 'add', '-q', '../tree')
  const before = snapshotGit(join(root, 'tree'))
  t.strictSame(putAside(before, 'r1').moved, [])
  put(join(main, '.git/commondir'), '/x')
  cpSync(join(main, '.git/worktrees/tree'), join(main, '.git/worktrees/new'), { recursive: true })
  put(join(main, '.git/worktrees/new/config.worktree'), EVIL)
  t.strictSame(
    putAside(before, 'r1').moved.map(({ path }) => path.slice(main.length)),
    ['/.git/commondir', '/.git/worktrees/new/config.worktree'],
  )
})
