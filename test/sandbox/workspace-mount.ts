import { mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import tap, { type Test } from 'tap'
import { workspaceMount } from '../../src/sandbox/workspace-mount.ts'

function testHost(t: Test) {
  const root = t.testdir({
    home: {
      '.iterion': { runs: { r1: {} }, worktrees: { w1: {} } },
      '.ssh': {},
      '.claude': { projects: {} },
      '.config': { nvim: {} },
      project: { sub: {} },
    },
    temp: { job: {} },
    file: '',
  })
  const home = join(root, 'home')
  return { root, home, iterionHome: join(home, '.iterion'), tempRoot: join(root, 'temp') }
}

void tap.test('a workspace is bound at its own real path, or where the spec says', async (t) => {
  const places = testHost(t)
  const project = join(places.home, 'project')
  symlinkSync('home/project', join(places.root, 'link'))
  const same = { mount: { source: project, target: project, readOnly: false }, workdir: project }
  t.strictSame(workspaceMount(project, undefined, places), same)
  t.strictSame(workspaceMount(`${places.root}/link/`, undefined, places), same)
  t.strictSame(workspaceMount(project, '/workspaces//project/', places), {
    mount: { source: project, target: '/workspaces/project', readOnly: false },
    workdir: '/workspaces/project',
  })
})

void tap.test('a workspace is a piece of work', async (t) => {
  const places = testHost(t)
  const { root, home } = places
  symlinkSync(home, join(root, 'link-home'))
  const fine = [`${home}/project/sub`, `${home}/.iterion/worktrees/w1`, `${home}/.config/nvim`]
  fine.push(`${root}/temp/job`)
  for (const path of fine) t.equal(workspaceMount(path, undefined, places).workdir, path)
  const rows = [
    [home, /record of runs/],
    [`${root}/link-home`, /record of runs/],
    [root, /record of runs/],
    [`${home}/.iterion`, /record of runs/],
    [`${home}/.iterion/runs/r1`, /record of runs/],
    [`${root}/temp`, /sockets of runs/],
    [`${home}/.ssh`, /programs of the host do what is written/],
    [`${home}/.claude/projects`, /programs of the host do what is written/],
    [`${home}/.config`, /programs of the host do what is written/],
    ['/', /record of runs/],
    ['/etc', /too much/],
    ['/etc/ssl', /read-only/],
    ['/usr', /too much/],
    ['/proc/self', /kernel/],
    [`${root}/file`, /not a folder/],
    [`${root}/nothing`, /not a folder/],
    ['home/project', /not a folder/],
  ] as const
  for (const [path, reason] of rows) {
    t.throws(
      () => workspaceMount(path, undefined, places),
      { code: 'SANDBOX_SPEC_UNSAFE', message: reason },
      path,
    )
  }
})

void tap.test('a workspace folder is a place of its own', async (t) => {
  const places = testHost(t)
  const project = join(places.home, 'project')
  for (const folder of ['work', '/', '/proc', '/etc', '/run', '/a:b', '/a,b']) {
    t.throws(
      () => workspaceMount(project, folder, places),
      { code: 'SANDBOX_SPEC_UNSAFE', message: /^workspace_folder / },
      folder,
    )
  }
  const odd = join(places.root, 'a:b')
  mkdirSync(odd)
  t.throws(() => workspaceMount(odd, undefined, places), { message: /^workspace .*a:b: .*colon/ })
  t.equal(workspaceMount(odd, '/w', places).workdir, '/w')
})
