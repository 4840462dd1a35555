import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import tap, { type Test } from 'tap'
import { hasOddEntry, objectIdBytes } from '../../src/sandbox/git-index.ts'
import { git, makeRepository } from '../support/git-repository.ts'

const OID = 'e69de29bb2d1d6434b8b29ae775ad8c2e48c5391'

/** One entry as git writes it. `length`: what it says of its name. `dropped`: makes it one of version 4. */
function entry(
  name: string,
  {
    dropped,
    extended,
    length = Buffer.byteLength(name),
    idBytes = 20,
  }: { dropped?: number; extended?: number; length?: number; idBytes?: number } = {},
): Buffer {
  const fixed = Buffer.alloc(40 + idBytes + (extended === undefined ? 2 : 4))
  fixed.writeUInt32BE(0o100755, 24)
  fixed.writeUInt16BE(Math.min(length, 0xfff) | (extended === undefined ? 0 : 0x4000), 40 + idBytes)
  if (extended !== undefined) fixed.writeUInt16BE(extended, 42 + idBytes)
  const text = Buffer.from(name)
  if (dropped !== undefined) {
    return Buffer.concat([fixed, Buffer.from([dropped]), text, Buffer.alloc(1)])
  }
  const bytes = fixed.length + text.length
  return Buffer.concat([fixed, text, Buffer.alloc(8 - (bytes % 8))])
}

function extension(name: string, content: Buffer): Buffer {
  const head = Buffer.alloc(8, name)
  head.writeUInt32BE(content.length, 4)
  return Buffer.concat([head, content])
}

function numbers(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 4)
  for (const [index, value] of values.entries()) bytes.writeUInt32BE(value, index * 4)
  return bytes
}

function indexOf(
  entries: readonly Buffer[],
  {
    version = 2,
    rest = [],
    idBytes = 20,
  }: { version?: number; rest?: Buffer[]; idBytes?: number } = {},
): Buffer {
  const head = Buffer.concat([Buffer.from('DIRC'), numbers(version, entries.length)])
  return Buffer.concat([head, ...entries, ...rest, Buffer.alloc(idBytes)])
}

void tap.test('a name that git would not add is odd', async (t) => {
  const odd = ['.git', '.git/hooks/x', 'a/.git/config', '.GIT/x', '.Git', 'git~1/x', 'a/GIT~1']
  odd.push(
    '.git./x',
    '.git /x',
    '.git::$INDEX_ALLOCATION/x',
    'a\\.git\\x',
    '.g\u200cit/x',
    '\ufeff.git',
  )
  odd.push('../x', 'a/../x', 'a/..', './x', 'a/./x', '/etc/x', 'a//x', '/')
  for (const name of odd) {
    t.ok(hasOddEntry(indexOf([entry(name)]), 20), name)
    t.ok(hasOddEntry(indexOf([entry('a'), entry(name)]), 20), `second: ${name}`)
    t.ok(hasOddEntry(indexOf([entry(name, { extended: 0x2000 })], { version: 3 }), 20), name)
    t.ok(hasOddEntry(indexOf([entry(name, { dropped: 0 })], { version: 4 }), 20), name)
    t.ok(hasOddEntry(indexOf([entry(name, { idBytes: 32 })], { idBytes: 32 }), 32), name)
  }
  const plain = [
    'a',
    '.gitignore',
    '.github/x',
    'a.git/x',
    '.git2',
    'git',
    'git~10',
    '...',
    '..x/y',
  ]
  plain.push('x..', 'a/', 'é', '.gitmodules', '', 'a\\b', '..\\x', 'git~1x')
  for (const name of plain) {
    t.notOk(hasOddEntry(indexOf([entry(name)]), 20), name)
    t.notOk(hasOddEntry(indexOf([entry(name, { dropped: 0 })], { version: 4 }), 20), name)
    t.notOk(hasOddEntry(indexOf([entry(name, { idBytes: 32 })], { idBytes: 32 }), 32), name)
  }
})

void tap.test('a name of version 4 is put together', async (t) => {
  const two = (first: string, dropped: number, more: string, length: number) =>
    hasOddEntry(
      indexOf([entry(first, { dropped: 0 }), entry(more, { dropped, length })], { version: 4 }),
      20,
    )
  t.ok(two('.gin', 1, 't/x', 6))
  t.notOk(two('.gin', 0, 't/x', 7))
  t.ok(two('.gin', 5, 't/x', 3), 'more is dropped than there is')
})

void tap.test('what git writes is never odd', async (t) => {
  const folder = makeRepository(join(t.testdir(), 'r'))
  const other = makeRepository(join(dirname(folder), 'other'))
  const index = () => readFileSync(join(folder, '.git/index'))
  const isPlain = (name: string) => t.notOk(hasOddEntry(index(), 20), name)
  for (let count = 0; count < 1000; count += 1) {
    writeFileSync(join(folder, `${'long'.repeat(count % 40)}-${count}`), '')
  }
  git(folder, 'add', '.')
  isPlain('a thousand files')
  git(folder, 'commit', '-q', '-m', 'x')
  git(folder, '-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'add', other, 'sub')
  isPlain('a submodule')
  writeFileSync(join(folder, 'later'), '')
  git(folder, 'add', '--intent-to-add', 'later')
  t.equal(index().readUInt32BE(4), 3)
  isPlain('intent to add')
  git(folder, 'update-index', '--untracked-cache')
  git(folder, 'status')
  isPlain('an untracked cache')
  git(folder, 'update-index', '--index-version', '4')
  t.equal(index().readUInt32BE(4), 4)
  isPlain('version 4')
  git(folder, '-c', 'index.threads=4', 'update-index', '--force-write-index')
  isPlain('blocks for threads')
  git(folder, 'update-index', '--split-index')
  git(folder, 'rm', '-q', '--cached', 'later')
  isPlain('a split index')
  const shared = readdirSync(join(folder, '.git')).filter((name) => name.startsWith('sharedindex.'))
  t.equal(shared.length, 1)
  t.notOk(hasOddEntry(readFileSync(join(folder, '.git', shared[0] ?? '')), 20))
})

void tap.test('blocks for threads are as git reads them in one', async (t) => {
  const first = entry('a', { dropped: 0 })
  const second = entry('b', { dropped: 1 })
  const end = 12 + first.length + second.length
  const [one, two] = [12, 12 + first.length]
  const isOdd = (...table: readonly number[]) =>
    hasOddEntry(
      indexOf([first, second], { version: 4, rest: [extension('IEOT', numbers(1, ...table))] }),
      20,
    )
  t.notOk(isOdd(one, 2))
  t.notOk(isOdd(one, 1, two, 1))
  t.ok(isOdd(one, 1), 'fewer')
  t.ok(isOdd(one, 1, two + 1, 1), 'elsewhere')
  t.ok(isOdd(two, 1, one, 1), 'another order')
  t.ok(isOdd(one, 2, two))
  const sharing = entry('b', { dropped: 0, length: 2 })
  const table = extension('IEOT', numbers(1, one, 1, two, 1))
  t.ok(hasOddEntry(indexOf([first, sharing], { version: 4, rest: [table] }), 20), 'half a name')
  const ends = (at: number) => extension('EOIE', Buffer.concat([numbers(at), Buffer.alloc(20)]))
  const rest = (at: number) => indexOf([first, second], { version: 4, rest: [ends(at)] })
  t.notOk(hasOddEntry(rest(end), 20))
  t.ok(hasOddEntry(rest(end - 1), 20))
  const hidden = [extension('TREE', ends(end - 1))]
  t.ok(hasOddEntry(indexOf([first, second], { version: 4, rest: hidden }), 20), 'hidden in another')
})

void tap.test('names of resolved conflicts count', async (t) => {
  const conflict = (text: string, ids = 1) =>
    hasOddEntry(
      indexOf([entry('a')], {
        rest: [extension('REUC', Buffer.concat([Buffer.from(text), Buffer.alloc(20 * ids)]))],
      }),
      20,
    )
  t.notOk(conflict('a\x00100644\x000\x000\x00'))
  t.notOk(conflict('a\x00100644\x00100644\x00100755\x00', 3))
  t.ok(conflict('.git/x\x00100644\x000\x000\x00'))
  t.ok(conflict('a\x00100644\x00100644\x000\x00'), 'cut short')
  t.ok(conflict('a\x00100644\x000\x00', 0))
  t.ok(conflict('a\x00 1\x000\x000\x00'))
  t.ok(conflict('a', 0))
})

void tap.test('a real conflict that was resolved is not odd', async (t) => {
  const folder = makeRepository(join(t.testdir(), 'r'))
  for (const [branch, text] of [
    ['one', '1'],
    ['two', '2'],
  ] as const) {
    git(folder, 'checkout', '-q', '-b', branch, 'main')
    writeFileSync(join(folder, 'file'), text)
    git(folder, 'add', '.')
    git(folder, 'commit', '-q', '-m', branch)
  }
  t.throws(() => git(folder, 'merge', '-q', 'one'))
  const index = () => readFileSync(join(folder, '.git/index'))
  t.notOk(hasOddEntry(index(), 20), 'stages')
  git(folder, 'add', 'file')
  t.ok(index().includes('REUC'))
  t.notOk(hasOddEntry(index(), 20))
})

void tap.test('a sparse index is not odd', async (t) => {
  const folder = makeRepository(join(t.testdir(), 'r'))
  for (const name of ['a', 'b/c']) {
    git(folder, 'update-index', '--add', '--cacheinfo', `100644,${OID},${name}/file`)
  }
  git(folder, 'hash-object', '-w', '-t', 'blob', '/dev/null')
  git(folder, 'commit', '-q', '-m', 'x')
  git(folder, 'sparse-checkout', 'set', '--cone', '--sparse-index', 'a')
  const index = readFileSync(join(folder, '.git/index'))
  t.ok(index.includes('b/\0'))
  t.notOk(hasOddEntry(index, 20))
})

void tap.test('an index of SHA-256 is read by the length of its ids', async (t: Test) => {
  const folder = join(t.testdir(), 'r')
  git(dirname(folder), 'init', '-q', '--object-format=sha256', folder)
  writeFileSync(join(folder, 'file'), '')
  git(folder, 'add', '.')
  const config = readFileSync(join(folder, '.git/config'), 'utf8')
  t.equal(objectIdBytes(config), 32)
  const index = readFileSync(join(folder, '.git/index'))
  t.notOk(hasOddEntry(index, 32))
  t.ok(hasOddEntry(index, 20))
})

void tap.test(
  'the length of ids is known, or the settings are not as git writes them',
  async (t) => {
    const rows = [
      ['', 20],
      ['[extensions]\n\tobjectformat = sha1\n', 20],
      ['[extensions]\n\tobjectFormat = sha256\n', 32],
      ['[extensions]\n\tobjectformat = sha1\n\tobjectformat = sha256\n', undefined],
      ['[extensions] objectformat = sha256\n', undefined],
      ['[extensions]\n\tobjectformat = "sha256"\n', undefined],
      ['[extensions]\n\tobjectformat = sha512\n', undefined],
    ] as const
    for (const [config, bytes] of rows) t.equal(objectIdBytes(config), bytes, config)
  },
)

void tap.test('what cannot be read is odd', async (t) => {
  const good = indexOf([entry('a'), entry('b')], { rest: [extension('TREE', Buffer.alloc(5))] })
  t.notOk(hasOddEntry(good, 20))
  // Without all of the extension it would be whole: git does not look at the checksum either.
  const whole = good.length - 13
  for (let size = 0; size < good.length; size += 1) {
    if (size === whole) continue
    t.ok(hasOddEntry(good.subarray(0, size), 20), `cut at ${size}`)
  }
  for (const version of [0, 1, 5]) t.ok(hasOddEntry(indexOf([entry('a')], { version }), 20))
  const rows: readonly [string, Buffer][] = [
    ['another mark', Buffer.concat([Buffer.from('DIRX'), good.subarray(4)])],
    ['extended in version 2', indexOf([entry('a', { extended: 0 })])],
    ['a name shorter than it says', indexOf([entry('a', { length: 3 }), entry('b')])],
    ['a name longer than it says', indexOf([entry('abc', { length: 1 }), entry('b')])],
    ['a name longer than any path', indexOf([entry('a'.repeat(4097))])],
    [
      'an extension beyond the end',
      indexOf([], { rest: [Buffer.from('TREE\xff\0\0\0', 'latin1')] }),
    ],
    ['more behind the extensions', indexOf([], { rest: [Buffer.from('x')] })],
    ['a number without end', indexOf([entry('\xff'.repeat(9), { dropped: 255 })], { version: 4 })],
  ]
  for (const [name, bytes] of rows) t.ok(hasOddEntry(bytes, 20), name)
  t.notOk(hasOddEntry(indexOf([entry('a'.repeat(4096))]), 20), 'the longest')
  t.notOk(hasOddEntry(indexOf([]), 20), 'an empty one')
})
