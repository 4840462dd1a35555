import { chmodSync } from 'node:fs'
import path from 'node:path'
import tap, { type Test } from 'tap'
import { whyNoSeal } from '../../src/sandbox/seal-forecast.ts'

const ORDINARY = { uid: 1000, gid: 1000, name: 'ada' }

/** A folder with programs of these names. */
function folderWith(t: Test, names: readonly string[]): string {
  const folder = t.testdir(Object.fromEntries(names.map((name) => [name, ''])))
  for (const name of names) chmodSync(path.join(folder, name), 0o755)
  return folder
}

const ALL = ['unshare', 'setpriv', 'sh', 'setsid', 'mkdir', 'ip', 'mount']

void tap.test('root is not sealed', async (t) => {
  const root = { user: { uid: 0, gid: 0, name: 'root' } }
  t.match(
    whyNoSeal(root, folderWith(t, ALL)),
    /^root is not kept in by a process seal.*another user$/,
  )
})

void tap.test('a program that is missing is named', async (t) => {
  for (const name of ALL) {
    const rest = ALL.filter((one) => one !== name)
    const owners: Readonly<Record<string, string>> = { ip: 'iproute2', mkdir: 'coreutils' }
    const owner = name === 'sh' ? 'the system itself' : (owners[name] ?? 'util-linux')
    t.equal(
      whyNoSeal({ user: ORDINARY }, folderWith(t, rest)),
      `a process seal is not possible: ${name} is missing: it comes with ${owner}`,
    )
  }
  t.match(whyNoSeal({ user: ORDINARY }, ''), /unshare is missing/)
})

void tap.test('nothing is said where all is there', async (t) => {
  // A machine that has user namespaces turned off says so.
  const why = whyNoSeal({ user: ORDINARY }, folderWith(t, ALL))
  t.match(why ?? 'a process seal is not possible: user namespaces', /user namespaces/)
})
