import { mkdirSync, symlinkSync } from 'node:fs'
import path from 'node:path'
import tap, { type Test } from 'tap'
import { judgeMounts } from '../../../src/sandbox/devcontainer/judge-mounts.ts'
import { type MountEntry, parseMountEntry } from '../../../src/sandbox/devcontainer/mount-entry.ts'
import type { MountSite } from '../../../src/sandbox/operator-mounts.ts'

function siteOf(t: Test): MountSite & { readonly root: string } {
  const root = t.testdir({
    home: {
      '.aws': { credentials: '' },
      work: { '.git': { hooks: {} }, data: { 'a.txt': '' }, cache: {}, 'file.txt': '' },
      'work-2': {},
    },
    temp: {},
  })
  const workspace = path.join(root, 'home/work')
  symlinkSync('/', path.join(workspace, 'link-to-root'))
  symlinkSync('data', path.join(workspace, 'link-inside'))
  return {
    root,
    home: path.join(root, 'home'),
    iterionHome: path.join(root, 'home/.iterion'),
    tempRoot: path.join(root, 'temp'),
    workflowDir: workspace,
    workspace: { source: workspace, target: '/work/place', readOnly: false },
    gitFolders: [],
  }
}

function judge(site: MountSite, ...written: readonly unknown[]) {
  const refused: [index: number, reason: string][] = []
  const entries = written.map((one) => {
    const entry = parseMountEntry(one)
    if ('fault' in entry) throw new Error(entry.fault)
    return entry
  })
  const mounts = judgeMounts(entries, site, (index, reason) => void refused.push([index, reason]))
  return { ...mounts, refused }
}
const reasonsOf = (site: MountSite, ...written: readonly unknown[]) =>
  judge(site, ...written).refused.map(([, reason]) => reason)

void tap.test('a bind is of something in the workspace, by its real path', async (t) => {
  const site = siteOf(t)
  const { source } = site.workspace
  const { binds, refused } = judge(
    site,
    `type=bind,source=${source}/data,target=/data`,
    `type=bind,source=${source}/link-inside/,target=/linked,readonly`,
    `type=bind,source=${source}//cache/../file.txt,target=/x//file.txt`,
    `type=bind,source=${source},target=/again,readonly`,
  )
  t.strictSame(refused, [])
  t.strictSame(binds, [
    { source: `${source}/data`, target: '/data', readOnly: false },
    { source: `${source}/data`, target: '/linked', readOnly: true },
    { source: `${source}/file.txt`, target: '/x/file.txt', readOnly: false },
    { source, target: '/again', readOnly: true },
  ])
})

// The case book would also bind listed caches of the host. There is no such list: a cache outside is the operator's.
void tap.test('D-12: sockets and roots of the host are refused by every spelling', async (t) => {
  const site = siteOf(t)
  const outside = (source: string) => `its source "${source}" is outside of the workspace`
  const sources = ['/var/run/docker.sock', '/run/docker.sock', '/var/run/../run/docker.sock']
  sources.push('//var//run/docker.sock', '/', '/proc/1/root', '/etc', '/proc/self/cwd')
  sources.push('/run/user/1000/podman/podman.sock', `${site.workspace.source}/link-to-root`)
  sources.push(`${site.workspace.source}/link-to-root/etc`, `${site.workspace.source}/..`)
  sources.push(`${site.root}/home/work-2`, `${site.workspace.source}/../work-2`, site.root)
  for (const [index, source] of sources.entries()) {
    for (const readonly of [true, false]) {
      const mounts = [{ type: 'bind', source, target: `/t${index}`, readonly }]
      t.strictSame(judge(site, ...mounts), {
        binds: [],
        volumes: [],
        tmpfs: [],
        refused: [[0, outside(source)]],
      })
    }
  }
  for (const source of ['./link-to-root', 'data', '~/.aws', '${localWorkspaceFolder}']) {
    t.strictSame(reasonsOf(site, { type: 'bind', source, target: '/h' }), [
      `its source "${source}" is not an absolute path`,
    ])
  }
})

void tap.test('D-12: each entry is refused on its own', async (t) => {
  const site = siteOf(t)
  const { binds, volumes, refused } = judge(
    site,
    'type=bind,source=/etc,target=/e',
    `type=bind,source=${site.workspace.source}/data,target=/e`,
    'type=bind,source=/,target=/h',
    'source=v,target=/v',
  )
  t.strictSame(
    refused.map(([index]) => index),
    [0, 2],
  )
  t.equal(binds.length, 1, 'a target of one that was refused is free')
  t.strictSame(volumes, [{ target: '/v' }])
})

void tap.test('the rules of every mount hold too', async (t) => {
  const site = siteOf(t)
  const { source } = site.workspace
  const git = 'it would be a second way into the git folder of the workspace: bind it read-only'
  const rows: [written: object, reason: RegExp | string][] = [
    [{ source, target: '/again' }, git],
    [{ source: `${source}/.git`, target: '/git' }, git],
    [{ source: `${source}/missing`, target: '/m' }, 'it does not exist'],
    [{ source: `${source}/data\n`, target: '/m' }, 'its name has a control character'],
    [{ source: `${source}/docker.sock`, target: '/m' }, 'it is the socket of a container engine'],
  ]
  for (const [written, reason] of rows) {
    t.match(reasonsOf(site, { type: 'bind', ...written }), [reason], JSON.stringify(written))
  }
})

void tap.test('no mount of any kind lies over what a run needs', async (t) => {
  const site = siteOf(t)
  const { source } = site.workspace
  const targets = ['/', '/proc', '/proc/x', '/dev/shm', '/etc/passwd', '/etc', '/run/secrets/x']
  targets.push('/run/iterion-egress', '/run', '/work/place', '/work', '/work/place/.git/hooks')
  targets.push(site.home, `${site.root}/`, 'relative', '/a:b', '/a,b', '/a\nb', '/x/../etc/passwd')
  targets.push('/work/place/../place', '//work//place')
  for (const target of targets) {
    for (const type of ['bind', 'volume', 'tmpfs']) {
      const { refused, ...mounts } = judge(site, { type, source: `${source}/data`, target })
      t.match(refused, [[0, /^its target /]], `${type} ${target}`)
      t.strictSame(mounts, { binds: [], volumes: [], tmpfs: [] })
    }
  }
})

void tap.test('a target in the workspace goes through no link', async (t) => {
  const site = siteOf(t)
  symlinkSync('/run/secrets', path.join(site.workspace.source, 'secrets'))
  symlinkSync('nowhere', path.join(site.workspace.source, 'broken'))
  mkdirSync(path.join(site.workspace.source, 'app'))
  for (const name of ['secrets', 'secrets/x', 'link-inside', 'link-to-root/etc', 'broken']) {
    t.strictSame(reasonsOf(site, `target=/work/place/${name}`), [
      `its target /work/place/${name} goes through a link`,
    ])
  }
  const { volumes, refused } = judge(
    site,
    'target=/work/place/app/node_modules',
    'target=/work/place-2/x',
  )
  t.strictSame(refused, [])
  t.equal(volumes.length, 2, 'one that is not there, and one that is elsewhere')
})

void tap.test('a volume is without a name, and as new as the container', async (t) => {
  const site = siteOf(t)
  const { volumes, tmpfs, refused } = judge(
    site,
    'source=cache,target=/cache,type=volume',
    'source=/etc,target=/e/',
    'source=../../x,target=/x',
    'type=tmpfs,target=/scratch',
  )
  t.strictSame(refused, [])
  t.strictSame(volumes, [{ target: '/cache' }, { target: '/e' }, { target: '/x' }])
  t.strictSame(tmpfs, ['/scratch'])
  // Docker refuses it as well where a volume has no name.
  t.match(reasonsOf(site, 'target=/v,readonly', 'type=tmpfs,target=/t,ro'), [/empty/, /empty/])
})

void tap.test('a target is taken once', async (t) => {
  const site = siteOf(t)
  t.strictSame(reasonsOf(site, 'target=/v', 'type=tmpfs,target=/x/../v/', 'target=/w'), [
    'its target /v is taken by an entry before it',
  ])
})

void tap.test(
  'D-13: folders of the home are refused after the variables are filled in',
  async (t) => {
    const site = siteOf(t)
    const real: MountEntry = {
      type: 'bind',
      source: `${site.home}/.aws`,
      target: '/a',
      readOnly: true,
    }
    const refused: string[] = []
    judgeMounts([real, { ...real, source: site.home }], site, (_, reason) => refused.push(reason))
    t.strictSame(refused, [
      `its source "${site.home}/.aws" is outside of the workspace`,
      `its source "${site.home}" is outside of the workspace`,
    ])
  },
)
