import { once } from 'node:events'
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import tap from 'tap'
import { findSealPlaces, namedSockets } from '../../src/door/seal-places.ts'

void tap.test('sockets with a name are read from the list of the system', async (t) => {
  const text = `Num       RefCount Protocol Flags    Type St Inode Path
00000000a998f295: 00000002 00000000 00010000 0001 01 75240819 /var/run/docker.sock
00000000f16a1d98: 00000003 00000000 00000000 0001 03 75240837
000000006c971e2f: 00000002 00000000 00000000 0002 01 75240817 @903bb
000000006c971e2e: 00000002 00000000 00000000 0002 01    41 /tmp/a folder/b.sock
000000006c971e2d: 00000002 00000000 00000000 0002 01    42 /tmp/a folder/b.sock
000000006c971e2c: 00000002 00000000 00010000 0001 01    43 relative.sock
`
  t.strictSame(namedSockets(text), ['/var/run/docker.sock', '/tmp/a folder/b.sock'])
  t.strictSame(namedSockets(''), [])
})

void tap.test('a socket is covered where it is, and a folder of sockets as a whole', async (t) => {
  // The name of a socket has at most 107 bytes.
  const folder = realpathSync(mkdtempSync(path.join(tmpdir(), 'seal-')))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const runtime = path.join(folder, 'runtime')
  mkdirSync(runtime)
  const names = [path.join(folder, 'one.sock'), path.join(runtime, 'two.sock')]
  for (const name of names) {
    const server = createServer()
    t.teardown(() => server.close())
    server.listen(name)
    await once(server, 'listening')
  }
  const without = findSealPlaces(undefined, [folder], [])
  t.ok(names.every((name) => without.sockets.includes(name)))
  t.equal(without.run, '/run')
  t.notOk(without.sockets.some((name) => name.startsWith('/run/')))
  const covered = findSealPlaces(runtime, [folder], [])
  t.ok(covered.folders.includes(runtime))
  t.ok(covered.sockets.includes(names[0] ?? ''))
  t.notOk(covered.sockets.includes(names[1] ?? ''))
})

void tap.test('what is no folder, or below /run, is not covered again', async (t) => {
  const file = path.join(t.testdir({}), 'file')
  writeFileSync(file, '')
  for (const given of ['/run/user/0', 'relative', '', file, '/no/such/folder']) {
    const { folders } = findSealPlaces(given, [], [])
    t.notOk(folders.includes(given), given)
  }
})

void tap.test('a folder that would not be there is refused', async (t) => {
  const folder = realpathSync(t.testdir({ below: {} }))
  const below = path.join(folder, 'below')
  for (const [runtime, kept] of [
    [undefined, '/run'],
    [undefined, '/run/some/folder'],
    [folder, folder],
    [folder, below],
  ] as const) {
    const expected = { code: 'SANDBOX_DOOR_FAILED', message: `${kept} is not there inside` }
    t.throws(() => findSealPlaces(runtime, ['/', kept], []), expected)
  }
  t.doesNotThrow(() => findSealPlaces(below, [folder], []))
})
