import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import tap, { type Test } from 'tap'
import { type HostPlaces, unsafeSource, unsafeTarget } from '../../src/sandbox/mount-rules.ts'
import { makeFifo } from '../support/fifo.ts'

function testHost(t: Test): HostPlaces & { readonly root: string } {
  const root = t.testdir({
    home: {
      '.iterion': { runs: { r1: { 'run.json': '{}' } }, bots: {} },
      '.ssh': { id: '' },
      project: { 'a.txt': '' },
    },
    temp: { run1: {} },
    data: { 'b.txt': '' },
  })
  return {
    root,
    home: join(root, 'home'),
    iterionHome: join(root, 'home/.iterion'),
    tempRoot: join(root, 'temp'),
  }
}

void tap.test('an engine’s socket is refused by every spelling, there or not', async (t) => {
  const places = testHost(t)
  const spellings = ['/var/run/docker.sock', '/run/docker.sock', '/var/run/../run/docker.sock']
  spellings.push('//var//run/docker.sock', '/run/./docker.sock/', '/proc/../run/docker.sock')
  spellings.push('/run/podman/podman.sock', '/run/user/1000/podman/podman.sock')
  spellings.push('/run/containerd/containerd.sock', '/var/run/crio/crio.sock', '/x/docker.raw.sock')
  for (const path of spellings) {
    t.equal(unsafeSource(path, true, places), 'it is the socket of a container engine', path)
  }
})

void tap.test('a socket is refused by any name, and a folder with an engine’s', async (t) => {
  // The path of a socket has at most 107 bytes.
  const root = mkdtempSync(join(tmpdir(), 'rules-'))
  t.teardown(() => rmSync(root, { recursive: true }))
  const places = { home: '/h', iterionHome: '/h/.iterion', tempRoot: '/temp' }
  for (const folder of ['x', 'x/deep', 'x/deep/er', 'y']) mkdirSync(join(root, folder))
  const listen = async (path: string) => {
    const server = createServer()
    await new Promise<void>((resolve) => server.listen(join(root, path), resolve))
    t.teardown(() => server.close())
  }
  await listen('x/deep/er/docker.sock')
  await listen('y/app.sock')
  symlinkSync('x/deep/er/docker.sock', join(root, 'innocent'))
  const socketIn = 'the socket of a container engine is in it'
  const rows = [
    ['innocent', 'it is the socket of a container engine'],
    ['x', socketIn],
    ['x/deep', socketIn],
    ['x/deep/er', socketIn],
    ['y/app.sock', 'it is neither a folder nor a regular file'],
    ['y', undefined],
  ] as const
  for (const [path, reason] of rows)
    t.equal(unsafeSource(join(root, path), true, places), reason, path)
})

void tap.test('what opens the host is refused even to be read', async (t) => {
  const places = testHost(t)
  const { root } = places
  symlinkSync('/', join(root, 'link-to-root'))
  symlinkSync('/proc', join(root, 'link-to-proc'))
  symlinkSync('home/.iterion/runs', join(root, 'link-to-runs'))
  const kernel = 'it is a tree of the kernel'
  const much = 'it holds too much of the host'
  const contains = 'the record of runs is in it'
  const rows = [
    ['/proc', kernel],
    ['/proc/1/root', kernel],
    ['/proc/self/cwd', kernel],
    ['/sys', kernel],
    ['/sys/fs/cgroup', kernel],
    ['/dev', kernel],
    ['/dev/null', kernel],
    [`${root}/link-to-proc`, kernel],
    [`${root}/link-to-proc/self/root`, contains],
    ['/', contains],
    ['/..', contains],
    [`${root}/link-to-root`, contains],
    ['/etc', much],
    ['/home', much],
    ['/usr', much],
    ['/var', much],
    ['/run', 'services of the host have their sockets there'],
    ['/var/run/', 'services of the host have their sockets there'],
    [root, contains],
    [`${root}/home`, contains],
    [`${root}/home/.iterion`, contains],
    [`${root}/home/.iterion/runs`, 'it is in the record of runs'],
    [`${root}/home/.iterion/runs/r1`, 'it is in the record of runs'],
    [`${root}/link-to-runs/r1/run.json`, 'it is in the record of runs'],
    [`${root}/temp`, 'the sockets of runs are in it'],
    ['/dev/../dev/zero', kernel],
    [`${root}/nothing`, 'it does not exist'],
    ['data', 'it does not exist'],
  ] as const
  for (const [path, reason] of rows) t.equal(unsafeSource(path, true, places), reason, path)
  const far = { ...places, iterionHome: '/elsewhere' }
  t.equal(unsafeSource(places.home, true, far), 'the home folder is in it')
})

void tap.test('a pipe of the host is refused', async (t) => {
  const places = { home: '/h', iterionHome: '/h/.iterion', tempRoot: '/temp' }
  t.equal(unsafeSource(makeFifo(t), true, places), 'it is neither a folder nor a regular file')
})

void tap.test('a folder by which the machine is run can only be read', async (t) => {
  const places = testHost(t)
  for (const path of ['/etc/ssl', '/usr/bin', '/etc/passwd']) {
    t.equal(unsafeSource(path, true, places), undefined, path)
    t.match(unsafeSource(path, false, places), /only be bound read-only/, path)
  }
  t.equal(unsafeSource('/usr/bin', false, { ...places, home: '/usr' }), undefined, 'a home there')
  t.match(unsafeSource('/usr/src', false, places), /only be bound read-only/)
})

void tap.test('work may be bound', async (t) => {
  const places = testHost(t)
  const { root } = places
  symlinkSync('data', join(root, 'link'))
  for (const path of [
    'data',
    'data/b.txt',
    'link',
    'home/project',
    'home/.iterion/bots',
    'temp/run1',
  ]) {
    t.equal(unsafeSource(join(root, path), false, places), undefined, path)
  }
})

void tap.test('a target is an absolute path that nobody else uses', async (t) => {
  const rows = [
    ['/work', undefined],
    ['/work/', undefined],
    ['/etc/ssl/certs', undefined],
    ['/run/other', undefined],
    ['work', /not an absolute path/],
    ['./work', /not an absolute path/],
    ['~/work', /not an absolute path/],
    ['', /not an absolute path/],
    ['/a,b', /comma/],
    ['/a:ro', /colon/],
    ['/a\nb', /control/],
    ['/', /over \/dev/],
    ['/a/..', /over \/dev/],
    ['/proc', /over \/proc/],
    ['//proc/1', /over \/proc/],
    ['/x/../sys/fs', /over \/sys/],
    ['/dev/shm', /over \/dev/],
    ['/run', /over \/run\/iterion-egress/],
    ['/run/iterion-egress/secrets', /over \/run\/iterion-egress/],
    ['/etc', /over \/etc\/passwd/],
    ['/etc/passwd', /over \/etc\/passwd/],
    ['/etc/resolv.conf', /over \/etc\/resolv.conf/],
    ['/etc/ld.so.preload', /over \/etc\/ld.so.preload/],
  ] as const
  for (const [target, reason] of rows) {
    const answer = unsafeTarget(target)
    if (reason === undefined) t.equal(answer, undefined, target)
    else t.match(answer, reason, target)
  }
})
