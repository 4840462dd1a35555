import { symlinkSync } from 'node:fs'
import { join } from 'node:path'
import tap, { type Test } from 'tap'
import { EgressError } from '../../src/errors.ts'
import {
  attachmentMounts,
  checkMounts,
  type MountSite,
  operatorMounts,
} from '../../src/sandbox/operator-mounts.ts'

function testSite(t: Test): MountSite & { readonly root: string } {
  const root = t.testdir({
    home: {
      '.iterion': { runs: {} },
      '.secret': { key: '' },
      project: { '.git': { config: '' }, data: { 'a.txt': '' }, flows: {} },
    },
    common: { config: '' },
    temp: {},
    out: { 'b.txt': '' },
  })
  const home = join(root, 'home')
  const project = join(home, 'project')
  symlinkSync(join(home, '.secret'), join(project, 'leak'))
  symlinkSync('data', join(project, 'same'))
  symlinkSync('home/project', join(root, 'way-in'))
  return {
    root,
    home,
    iterionHome: join(home, '.iterion'),
    tempRoot: join(root, 'temp'),
    workflowDir: join(project, 'flows'),
    workspace: { source: project, target: project, readOnly: false },
    gitFolders: [join(root, 'common')],
  }
}

const ask = (source: string, target = '/t', readOnly = true) => ({ source, target, readOnly })

function problems(action: () => unknown): string[] {
  try {
    action()
  } catch (error) {
    if (error instanceof EgressError && error.code === 'SANDBOX_SPEC_UNSAFE') {
      return error.problems.map(({ message }) => message)
    }
    return [String(error)]
  }
  return []
}

void tap.test('sources are read from the workflow, the home, or the root', async (t) => {
  const site = testSite(t)
  const { root, home } = site
  const rows = [
    ['../data', `${home}/project/data`],
    ['../same', `${home}/project/data`],
    ['~/project/data', `${home}/project/data`],
    [`${root}/out/../out//b.txt`, `${root}/out/b.txt`],
    [`${root}/way-in/data`, `${home}/project/data`],
  ] as const
  for (const [source, real] of rows) {
    t.strictSame(
      checkMounts([ask(source, '/t/', false)], site),
      [{ source: real, target: '/t', readOnly: false }],
      source,
    )
  }
})

void tap.test('each entry that would open the sandbox is refused, all at once', async (t) => {
  const site = testSite(t)
  const { root, home } = site
  const found = problems(() =>
    checkMounts(
      [
        ask('/var/run/../run/docker.sock'),
        ask('~/'),
        ask(`${root}/out`, '/ok'),
        ask(`${root}/out`, '/ok/'),
        ask(`${root}/out`, 'relative'),
        ask(`${root}/out`, '/proc/x'),
        ask(`${root}/none`, '/n'),
      ],
      site,
    ),
  )
  t.strictSame(found, [
    'mounts[0]: /var/run/../run/docker.sock cannot be bound: it is the socket of a container engine',
    'mounts[1]: ~/ cannot be bound: the record of runs is in it',
    `mounts[3]: ${root}/out cannot be bound: its target /ok is taken by an entry before it`,
    `mounts[4]: ${root}/out cannot be bound: its target is not an absolute path`,
    `mounts[5]: ${root}/out cannot be bound: its target would lie over /proc of the sandbox`,
    `mounts[6]: ${root}/none cannot be bound: it does not exist`,
  ])
  for (const target of [home, `${home}/project`, root, `${home}/project/.git/hooks`]) {
    t.equal(problems(() => checkMounts([ask(`${root}/out`, target)], site)).length, 1, target)
  }
  t.strictSame(
    problems(() => checkMounts([ask(`${root}/out`, `${home}/project/out`)], site)),
    [],
  )
})

void tap.test('a link that a run may have left leads nowhere', async (t) => {
  const site = testSite(t)
  const reason = /a symbolic link in the workspace leads out of it/
  for (const source of ['../leak', '../leak/key', `${site.root}/way-in/leak/key`]) {
    t.match(problems(() => checkMounts([ask(source)], site))[0], reason, source)
    t.match(problems(() => attachmentMounts([source], site))[0], reason, source)
  }
  t.strictSame(
    problems(() => checkMounts([ask('~/.secret')], site)),
    [],
    'named as it is',
  )
})

void tap.test('git metadata has no second way in', async (t) => {
  const site = testSite(t)
  const { root, home } = site
  const reason = /second way into the git folder/
  const sources = [`${home}/project`, `${home}/project/.git`, `${home}/project/.git/config`]
  sources.push(`${root}/common`)
  for (const source of sources) {
    t.match(problems(() => checkMounts([ask(source, '/t', false)], site))[0], reason, source)
    t.strictSame(
      problems(() => checkMounts([ask(source, '/t', true)], site)),
      [],
      source,
    )
  }
})

void tap.test('attachments are bound read-only where they are', async (t) => {
  const site = testSite(t)
  const { root, home } = site
  const bind = (source: string, target = source) => ({ source, target, readOnly: true })
  t.strictSame(attachmentMounts([`${root}/out/b.txt`, '../data', '../same/a.txt'], site), [
    bind(`${root}/out/b.txt`),
    bind(`${home}/project/data`),
    bind(`${home}/project/data/a.txt`),
  ])
  const moved = { ...site, workspace: { ...site.workspace, target: '/w' } }
  t.strictSame(
    attachmentMounts(['../data'], moved),
    [bind(`${home}/project/data`), bind(`${home}/project/data`, '/w/data')],
    'also where the workspace is inside',
  )
  t.strictSame(
    problems(() => attachmentMounts(['none', '/run', '..'], site)),
    [
      'attachments[0]: none cannot be bound: it does not exist',
      'attachments[1]: /run cannot be bound: services of the host have their sockets there',
      'attachments[2]: .. cannot be bound: it is the workspace itself',
    ],
  )
})

void tap.test('mounts and attachments are refused together', async (t) => {
  const site = testSite(t)
  t.match(
    problems(() => operatorMounts([ask('/')], ['/etc/shadow', '/nowhere'], site)),
    [/^mounts\[0\]: /, /^attachments\[1\]: /],
  )
  const { mounts, attachments } = operatorMounts([ask('../data')], ['../data/a.txt'], site)
  t.match([mounts.length, attachments.length > 0], [1, true])
})
