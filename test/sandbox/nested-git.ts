import { symlinkSync } from 'node:fs'
import { join } from 'node:path'
import tap from 'tap'
import { nestedGit } from '../../src/sandbox/nested-git.ts'

void tap.test('whatever git takes for a repository is found, at any depth', async (t) => {
  const bare = () => ({ HEAD: '', objects: {}, refs: {} })
  const root = t.testdir({
    '.git': { modules: { a: { '.git': {} } } },
    a: { '.git': {}, b: { c: { '.git': 'gitdir: x' } } },
    b: { '.GIT': {} },
    'x.git': bare(),
    'half.git': { HEAD: '', refs: {} },
    '.git.sandboxed-r1': bare(),
    'not.git.d': {},
  })
  symlinkSync('a', join(root, 'link'))
  symlinkSync('a/.git', join(root, 'b/.git'))
  const { gits, bares } = nestedGit(root)
  t.strictSame(
    gits.map((path) => path.slice(root.length + 1)),
    ['a/.git', 'a/b/c/.git', 'b/.GIT', 'b/.git'],
  )
  t.strictSame(bares, [join(root, 'x.git')])
  t.strictSame(nestedGit(join(root, 'x.git')).bares, [join(root, 'x.git')], 'the folder itself')
})
