import { symlinkSync } from 'node:fs'
import { join } from 'node:path'
import tap from 'tap'
import { isWithin, normalPath, realOf, realStat } from '../../src/sandbox/paths.ts'

void tap.test('a path is inside a folder by whole names', async (t) => {
  const rows = [
    ['/a', '/a', true],
    ['/a', '/a/b', true],
    ['/a', '/ab', false],
    ['/a/b', '/a', false],
    ['/', '/a', true],
    ['/', '/', true],
  ] as const
  for (const [folder, path, expected] of rows) {
    t.equal(isWithin(folder, path), expected, `${folder} ${path}`)
  }
})

void tap.test('every spelling of a path comes to one', async (t) => {
  for (const path of ['/a/b', '//a//b', '/a/./b/', '/x/../a/b', '///a/b//', '/../a/b']) {
    t.equal(normalPath(path), '/a/b', path)
  }
  for (const path of ['/', '//', '/.', '/..']) t.equal(normalPath(path), '/', path)
})

void tap.test('links are followed, also where the end does not exist', async (t) => {
  const folder = t.testdir({ real: { file: '' } })
  symlinkSync('real', join(folder, 'link'))
  symlinkSync('nowhere', join(folder, 'broken'))
  t.strictSame(realStat(join(folder, 'link')), {
    real: join(folder, 'real'),
    isFolder: true,
    isFile: false,
  })
  t.match(realStat(join(folder, 'link/file')), { isFolder: false, isFile: true })
  t.equal(realStat(join(folder, 'broken')), undefined)
  t.equal(realStat('package.json'), undefined, 'a relative path is nowhere')
  t.equal(realOf(join(folder, 'link/new/one')), join(folder, 'real/new/one'))
  t.equal(realOf('/'), '/')
})
