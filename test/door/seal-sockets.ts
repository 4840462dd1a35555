import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
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

void tap.test('where there is too much to look at is told', async (t) => {
  const folder = t.testdir({ wide: {}, full: {} })
  const wide = path.join(folder, 'wide')
  // The folder itself is one of the thousand.
  for (let i = 1; i < 1000; i++) mkdirSync(path.join(wide, `${i}`))
  const full = path.join(folder, 'full')
  for (let i = 0; i < 20_000; i++) writeFileSync(path.join(full, `${i}`), '')
  const cut = (...roots: readonly string[]) =>
    findSockets(roots, []).unsearched.filter((one) => one.startsWith(folder))
  t.strictSame(cut(wide, full), [])
  mkdirSync(path.join(wide, 'one more'))
  writeFileSync(path.join(full, 'one more'), '')
  t.strictSame(cut(wide, full), [wide, full])
  t.strictSame(cut(folder), [full], 'what lies deeper is never looked at')
})
