import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import tap, { type Test } from 'tap'
import { clawMount, findIterion } from '../../src/sandbox/claw-binary.ts'
import { bareHost } from '../support/bare-host.ts'

/** A machine with programs called `iterion` in some folders, the first of them first on PATH. */
function machine(t: Test, folders: Record<string, number>, env: Record<string, string> = {}) {
  const root = t.testdir({})
  for (const [folder, mode] of Object.entries(folders)) {
    mkdirSync(path.join(root, folder), { recursive: true })
    const file = path.join(root, folder, 'iterion')
    writeFileSync(file, '#!/bin/sh\n')
    chmodSync(file, mode)
  }
  const PATH = Object.keys(folders)
    .map((folder) => path.join(root, folder))
    .join(':')
  const at = (name: string) => path.join(root, name)
  const named = Object.fromEntries(Object.entries(env).map(([name, one]) => [name, at(one)]))
  return { host: bareHost(t, { env: { PATH, ...named } }), at }
}

void tap.test('the first program on PATH, or the one that ITERION_BIN names', async (t) => {
  const plain = machine(t, { a: 0o644, b: 0o755, c: 0o755 })
  t.equal(findIterion(plain.host), plain.at('b/iterion'))
  const named = machine(t, { a: 0o755, c: 0o755 }, { ITERION_BIN: 'c/iterion' })
  t.equal(findIterion(named.host), named.at('c/iterion'))
  t.strictSame(clawMount(named.host), {
    source: named.at('c/iterion'),
    target: '/usr/local/bin/iterion',
    readOnly: true,
  })
  const none = machine(t, { a: 0o644 })
  t.equal(findIterion(none.host), undefined)
  t.equal(clawMount(none.host), undefined)
})

void tap.test('an ITERION_BIN that is no program is refused, and nothing else taken', async (t) => {
  for (const file of ['a/nothing', 'a', 'b/iterion']) {
    const { host } = machine(t, { a: 0o755, b: 0o644 }, { ITERION_BIN: file })
    t.throws(() => findIterion(host), { code: 'OPTION_INVALID', message: /^ITERION_BIN=/ }, file)
  }
  const { host } = machine(t, { a: 0o755 })
  const relative = { ...host, env: { ...host.env, ITERION_BIN: 'a/iterion' } }
  t.throws(() => findIterion(relative), { code: 'OPTION_INVALID' }, 'a relative one')
})

void tap.test('the file itself is bound, and nothing that no sandbox may hold', async (t) => {
  const { host, at } = machine(t, { a: 0o755 })
  symlinkSync(at('a/iterion'), at('link'))
  const linked = { ...host, env: { ITERION_BIN: at('link') } }
  t.match(clawMount(linked), { source: at('a/iterion') })
  const recorded = path.join(host.iterionHome, 'runs')
  mkdirSync(recorded, { recursive: true })
  writeFileSync(path.join(recorded, 'iterion'), '')
  chmodSync(path.join(recorded, 'iterion'), 0o755)
  const inRuns = { ...host, env: { ITERION_BIN: path.join(recorded, 'iterion') } }
  t.throws(() => clawMount(inRuns), { code: 'OPTION_INVALID', message: /record of runs/ })
})
