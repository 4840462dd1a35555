import { execFileSync } from 'node:child_process'
import { chmodSync, truncateSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { MAX_SOURCE_BYTES, readSource } from '../../src/presets/read-source.ts'

void tap.test('a file is read as UTF-8, its BOM kept', async (t) => {
  const dir = t.testdir({ a: 'rules: [bücher.test]\n', b: '\ufeffx', c: '' })
  t.equal(readSource(path.join(dir, 'a')), 'rules: [bücher.test]\n')
  t.equal(readSource(path.join(dir, 'b')), '\ufeffx')
  t.equal(readSource(path.join(dir, 'c')), '')
})

void tap.test('what is no UTF-8 is refused at the byte where it ends to be', async (t) => {
  const table: [number[], number][] = [
    [[0xff], 0],
    [[0x61, 0x62, 0xc3], 3],
    [[0x61, 0xc3, 0x28], 2],
    [[0xed, 0xa0, 0x80], 1],
    [[0xc0, 0x80], 0],
    [[0x72, 0x00, 0x75, 0x00, 0xff, 0xfe], 4],
  ]
  for (const [bytes, offset] of table) {
    const dir = t.testdir({ file: Buffer.from(bytes) })
    t.throws(() => readSource(path.join(dir, 'file')), {
      code: 'FILE_UNREADABLE',
      message: new RegExp(`not UTF-8 at byte ${offset};`),
    }, bytes.join())
  }
})

void tap.test('the largest file is read, one byte more is not', async (t) => {
  const dir = t.testdir({ file: '' })
  const file = path.join(dir, 'file')
  truncateSync(file, MAX_SOURCE_BYTES)
  t.equal(readSource(file).length, MAX_SOURCE_BYTES)
  truncateSync(file, MAX_SOURCE_BYTES + 1)
  t.throws(() => readSource(file), { code: 'FILE_UNREADABLE', message: /has 16777217 bytes/ })
})

void tap.test('what is no regular file is refused at once', async (t) => {
  const dir = t.testdir({ folder: {} })
  t.throws(() => readSource(path.join(dir, 'folder')), { code: 'FILE_UNREADABLE', message: /is a directory$/ })
  t.throws(() => readSource(path.join(dir, 'missing')), { code: 'FILE_UNREADABLE', message: /no such file$/ })
  t.throws(() => readSource('a\0b'), { code: 'FILE_UNREADABLE' })
  t.throws(() => readSource('/dev/zero'), { code: 'FILE_UNREADABLE', message: /is not a regular file$/ })
  const pipe = path.join(dir, 'pipe')
  execFileSync('mkfifo', [pipe])
  t.throws(() => readSource(pipe), { code: 'FILE_UNREADABLE', message: /is not a regular file$/ }, 'a pipe without a writer')
})

void tap.test('a file that may not be read says so', async (t) => {
  const dir = t.testdir({ file: 'x' })
  const file = path.join(dir, 'file')
  chmodSync(file, 0)
  // Root may read everything: it steps down for the one call.
  const isRoot = process.geteuid?.() === 0
  if (isRoot) process.seteuid?.(65_534)
  try {
    t.throws(() => readSource(file), { code: 'FILE_UNREADABLE', message: /no permission to read it$/ })
  } finally {
    if (isRoot) process.seteuid?.(0)
  }
})

void tap.test('the error of the system is kept', async (t) => {
  const dir = t.testdir({ file: 'x' })
  writeFileSync(path.join(dir, 'file'), 'y')
  t.throws(() => readSource(path.join(dir, 'file', 'below')), { code: 'FILE_UNREADABLE', cause: { code: 'ENOTDIR' } })
})
