import { once } from 'node:events'
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import tap from 'tap'
import { findSealPlaces } from '../../src/door/seal-places.ts'

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
