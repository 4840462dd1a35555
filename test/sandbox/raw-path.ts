import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import tap from 'tap'
import * as raw from '../../src/sandbox/raw-path.ts'

void tap.test('a name of any bytes is found, read, followed and renamed', async (t) => {
  const root = t.testdir({ plain: {} })
  const odd = Buffer.concat([Buffer.from(`${root}/`), Buffer.from([0xff, 0x20, 0xe9])])
  mkdirSync(odd)
  const file = Buffer.concat([odd, Buffer.from('/f')])
  writeFileSync(file, Buffer.from([0xc3, 0xa9, 0xff]))
  symlinkSync(Buffer.from([0xfe]), Buffer.concat([odd, Buffer.from('/l')]))
  const path = odd.toString('latin1')
  const names = raw.entriesOf(raw.toRaw(root)).map(({ name }) => name)
  t.strictSame(names.toSorted(), ['plain', '\xff \xe9'])
  t.equal(raw.kindOf(path), 'folder')
  t.equal(raw.readRaw(join(path, 'f'), 3), '\xc3\xa9\xff')
  t.equal(raw.readRaw(join(path, 'f'), 2), undefined, 'larger than asked for')
  t.equal(raw.linkTarget(join(path, 'l')), '\xfe')
  t.equal(raw.realRaw(path), path)
  raw.renameRaw(path, join(raw.toRaw(root), '\xfd'))
  t.equal(raw.kindOf(path), 'none')
  t.match(raw.fromRaw(path), /\uFFFD \uFFFD$/)
  t.equal(raw.fromRaw(raw.toRaw('/é/😀')), '/é/😀')
})

void tap.test('what is at a path is told without following links', async (t) => {
  const root = t.testdir({ folder: { f: '' } })
  symlinkSync('folder', join(root, 'link'))
  const kinds = ['folder', 'folder/f', 'link', 'nothing', 'folder/f/below']
  t.strictSame(
    kinds.map((name) => raw.kindOf(join(root, name))),
    ['folder', 'file', 'link', 'none', 'none'],
  )
  t.equal(raw.kindOf('/dev/null'), 'other')
  t.strictSame(raw.entriesOf(join(root, 'nothing')), [])
  t.equal(raw.readRaw(join(root, 'nothing'), 9), undefined)
  t.not(raw.identityOf(join(root, 'folder')), raw.identityOf(join(root, 'link')))
  t.equal(raw.identityOf(join(root, 'nothing')), '')
  const all = [...raw.foldersBelow(root, (path) => !path.endsWith('/no'))].map(({ path }) => path)
  t.strictSame(all, [root, join(root, 'folder')])
})
