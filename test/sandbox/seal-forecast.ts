import { chmodSync, existsSync, symlinkSync } from 'node:fs'
import path from 'node:path'
import tap, { type Test } from 'tap'
import { whyNoSeal } from '../../src/sandbox/seal-forecast.ts'
import { bareHost } from '../support/bare-host.ts'

const ORDINARY = { uid: 1000, gid: 1000, name: 'ada' }

/** A folder with programs of these names. */
function folderWith(t: Test, names: readonly string[]): string {
  const folder = t.testdir(Object.fromEntries(names.map((name) => [name, ''])))
  for (const name of names) chmodSync(path.join(folder, name), 0o755)
  return folder
}

void tap.test('root is not sealed', async (t) => {
  const PATH = folderWith(t, ['unshare', 'setpriv', 'sh', 'ip', 'mount'])
  const root = bareHost(t, { env: { PATH }, user: { uid: 0, gid: 0, name: 'root' } })
  t.match(whyNoSeal(root), /^root is not kept in by a process seal.*another user$/)
})

void tap.test('a program that is missing is named', async (t) => {
  const all = ['unshare', 'setpriv', 'sh', 'mount']
  for (const name of ['unshare', 'setpriv', 'sh']) {
    const PATH = folderWith(
      t,
      [...all, 'ip'].filter((one) => one !== name),
    )
    const host = bareHost(t, { env: { PATH }, user: ORDINARY })
    t.equal(
      whyNoSeal(host),
      `a process seal is not possible: ${name} is missing: it comes with util-linux`,
    )
  }
  t.match(whyNoSeal(bareHost(t, { env: {}, user: ORDINARY })), /unshare is missing/)
  // The set-up looks in the folders of the system too.
  const isThere = ['/usr/sbin/ip', '/sbin/ip'].some((file) => existsSync(file))
  const host = bareHost(t, { env: { PATH: folderWith(t, all) }, user: ORDINARY })
  const ip = /ip is missing: it comes with iproute2/
  t.equal(ip.test(whyNoSeal(host) ?? ''), !isThere)
})

void tap.test('nothing is said where all is there', async (t) => {
  const folder = t.testdir({})
  for (const name of ['unshare', 'setpriv', 'sh', 'ip', 'mount']) {
    symlinkSync(process.execPath, path.join(folder, name))
  }
  const why = whyNoSeal(bareHost(t, { env: { PATH: folder }, user: ORDINARY }))
  // A machine that has user namespaces turned off says so.
  t.match(why ?? 'a process seal is not possible: user namespaces', /user namespaces/)
})
