import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, realpathSync, renameSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import tap from 'tap'
import {
  bytesOf,
  escapeBytes,
  findSockets,
  namedSockets,
  textOf,
} from '../../src/door/seal-sockets.ts'

void tap.test('sockets with a name are read from the list of the system', async (t) => {
  const text = `Num       RefCount Protocol Flags    Type St Inode Path
00000000a998f295: 00000002 00000000 00010000 0001 01 75240819 /var/run/docker.sock
00000000f16a1d98: 00000003 00000000 00000000 0001 03 75240837
000000006c971e2f: 00000002 00000000 00000000 0002 01 75240817 @903bb
000000006c971e2e: 00000002 00000000 00000000 0002 01    41 /tmp/a folder/b.sock
000000006c971e2d: 00000002 00000000 00000000 0002 01    42 /tmp/a folder/b.sock
000000006c971e2c: 00000002 00000000 00010000 0001 01    43 relative.sock
000000006c971e2a: 00000002 00000000 00010000 0001 01    44 /tmp/two
lines/\r\u2028\xff
`
  t.strictSame(namedSockets(text), [
    '/var/run/docker.sock',
    '/tmp/a folder/b.sock',
    '/tmp/two\nlines/\r\u2028\xff',
  ])
  t.strictSame(namedSockets(''), [])
})

void tap.test('every byte of a name comes through a shell', async (t) => {
  const bytes = Array.from({ length: 255 }, (_, i) => String.fromCharCode(i + 1)).join('')
  const words = ['-c', `printf '%b' "$1"`, 'sh', escapeBytes(bytes)]
  t.equal(execFileSync('/bin/sh', words).toString('latin1'), bytes)
  t.equal(escapeBytes('/tmp/a-b_c.1'), '/tmp/a-b_c.1')
  t.equal(bytesOf('é'), '\xc3\xa9')
  t.equal(textOf('\xc3\xa9'), 'é')
})

void tap.test(
  'a folder that was looked into for itself is looked into for those below',
  async (t) => {
    // The name of a socket has at most 107 bytes.
    const folder = realpathSync(mkdtempSync(path.join(tmpdir(), 'seal-')))
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    const [first, second] = ['.a', '.a/b'].map((name) => path.join(folder, name)) as [
      string,
      string,
    ]
    mkdirSync(second, { recursive: true })
    mkdirSync(path.join(folder, 'c'))
    const listen = async (name: string) => {
      const server = createServer().listen(name)
      t.teardown(() => server.close())
      await once(server, 'listening')
      return name
    }
    // The system lists these by their names, so their folders are looked into. One has another name by now.
    const found = [await listen(path.join(folder, 's')), await listen(path.join(first, 's'))]
    const renamed = path.join(second, 'renamed')
    renameSync(await listen(path.join(folder, 'c/s')), renamed)
    found.push(renamed)
    const of = (folders: readonly string[], homes: readonly string[]) =>
      findSockets(folders, homes).sockets.filter((one) => one.startsWith(folder))
    t.strictSame(of([first], []).toSorted(), found.toSorted(), 'below a folder that is worked in')
    t.strictSame(of([], [folder]).toSorted(), found.toSorted(), 'below a home')
    t.strictSame(
      of([folder], [folder]).toSorted(),
      found.toSorted(),
      'each as deep as it has to be',
    )
  },
)

void tap.test('where there is too much to look at is told', async (t) => {
  const folder = t.testdir({ wide: { a: {}, b: {} }, full: { a: '', b: '', c: '' } })
  const wide = path.join(folder, 'wide')
  const full = path.join(folder, 'full')
  const cut = (folders: number, entries: number, ...roots: readonly string[]) =>
    findSockets(roots, [], { folders, entries }).unsearched.filter((one) => one.startsWith(folder))
  t.strictSame(cut(3, 3, wide, full), [], 'the folder itself is one')
  t.strictSame(cut(2, 2, wide, full), [wide, full])
  t.strictSame(cut(3, 2, folder), [full], 'what lies deeper is never looked at')
})
