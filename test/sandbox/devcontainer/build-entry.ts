import { symlinkSync } from 'node:fs'
import path from 'node:path'
import tap, { type Test } from 'tap'
import { checkBuild } from '../../../src/sandbox/devcontainer/build-entry.ts'

function repositoryOf(t: Test): string {
  const root = t.testdir({
    outside: { Dockerfile: '', 'devcontainer.json': '' },
    repo: {
      '.devcontainer': { Dockerfile: '', 'dev.Dockerfile': '', context: {} },
      docker: { Dockerfile: '' },
    },
    'repo-2': { Dockerfile: '' },
  })
  const repository = path.join(root, 'repo')
  symlinkSync('/', path.join(repository, 'link-to-root'))
  symlinkSync('../outside/Dockerfile', path.join(repository, 'link-out'))
  symlinkSync('docker', path.join(repository, 'link-inside'))
  symlinkSync('nowhere', path.join(repository, 'link-broken'))
  return repository
}

function check(repository: string, root: Readonly<Record<string, unknown>>) {
  const told: string[] = []
  const tell = (kind: string) => (place: string | readonly (string | number)[], text: string) =>
    void told.push(`${kind} ${[place].flat().join('.')}: ${text}`)
  const folder = path.join(repository, '.devcontainer')
  const build = checkBuild(
    root,
    { repository, folder },
    {
      text: (place, value) => {
        if (value === undefined || typeof value === 'string') return value
        tell('invalid')(place, 'expected a text')
        return undefined
      },
      record: (_, value) => (value ?? {}) as Record<string, string>,
      unsafe: tell('unsafe'),
      invalid: tell('invalid'),
      ignore: tell('ignored'),
    },
  )
  return { build, told }
}

void tap.test('without build and dockerFile there is no build', async (t) => {
  const repository = repositoryOf(t)
  t.strictSame(check(repository, { image: 'x' }), { build: undefined, told: [] })
  t.strictSame(check(repository, { image: 'x', context: '..' }).told, [
    'ignored context: there is no dockerFile beside it',
  ])
})

void tap.test('paths start at the folder of the file and come out real', async (t) => {
  const repository = repositoryOf(t)
  const folder = path.join(repository, '.devcontainer')
  const plain = { dockerfile: `${folder}/Dockerfile`, context: folder, args: {}, target: undefined }
  const rows: [root: Readonly<Record<string, unknown>>, build: object][] = [
    [{ build: { dockerfile: 'Dockerfile' } }, plain],
    [{ build: { dockerfile: './Dockerfile', context: '..' } }, { ...plain, context: repository }],
    [
      { build: { dockerfile: 'dev.Dockerfile' } },
      { ...plain, dockerfile: `${folder}/dev.Dockerfile` },
    ],
    [
      { build: { dockerfile: '../docker/Dockerfile', context: '' } },
      { ...plain, dockerfile: `${repository}/docker/Dockerfile` },
    ],
    [
      { build: { dockerfile: '../link-inside/Dockerfile' } },
      { ...plain, dockerfile: `${repository}/docker/Dockerfile` },
    ],
    [{ build: { dockerfile: `${folder}/Dockerfile` } }, plain],
    [
      { build: { dockerfile: 'Dockerfile', args: { A: '1' }, target: 'dev-1.x' } },
      { ...plain, args: { A: '1' }, target: 'dev-1.x' },
    ],
    // The old spelling.
    [{ dockerFile: 'Dockerfile' }, plain],
    [
      { dockerFile: 'Dockerfile', context: '..' },
      { ...plain, context: repository },
    ],
  ]
  for (const [root, build] of rows) {
    t.strictSame(check(repository, root), { build, told: [] }, JSON.stringify(root))
  }
})

void tap.test('D-28: what leads out of the repository is refused', async (t) => {
  const repository = repositoryOf(t)
  const out = (place: string, written: string) =>
    `unsafe ${place}: "${written}": it is outside of the repository`
  const files = [
    '../../../../../../../../../etc/passwd',
    '/etc/passwd',
    '../link-to-root/etc/passwd',
  ]
  files.push('../link-out', '../../outside/Dockerfile', '../../repo-2/Dockerfile')
  for (const file of files) {
    t.strictSame(check(repository, { build: { dockerfile: file } }), {
      build: undefined,
      told: [out('build.dockerfile', file)],
    })
    t.strictSame(check(repository, { dockerFile: file }).told, [out('dockerFile', file)])
  }
  for (const context of [
    '../..',
    '/',
    '../link-to-root',
    '../../repo-2',
    '/tmp/..',
    '../link-to-root/etc',
  ]) {
    t.strictSame(check(repository, { build: { dockerfile: 'Dockerfile', context } }), {
      build: undefined,
      told: [out('build.context', context)],
    })
    t.strictSame(check(repository, { dockerFile: 'Dockerfile', context }).told, [
      out('context', context),
    ])
  }
  const both = check(repository, { build: { context: '../..', dockerfile: '/etc/passwd' } })
  t.strictSame(both.told, [out('build.dockerfile', '/etc/passwd'), out('build.context', '../..')])
})

void tap.test('what is not there, or of another kind, is refused', async (t) => {
  const repository = repositoryOf(t)
  const rows = [
    [{ dockerfile: 'nowhere' }, 'unsafe build.dockerfile: "nowhere": it does not exist'],
    [
      { dockerfile: '../link-broken' },
      'unsafe build.dockerfile: "../link-broken": it does not exist',
    ],
    [{ dockerfile: '.' }, 'unsafe build.dockerfile: ".": it is no file'],
    [{ dockerfile: '' }, 'unsafe build.dockerfile: "": it is no file'],
    [{ dockerfile: 'Dockerfile/..' }, 'unsafe build.dockerfile: "Dockerfile/..": it is no file'],
    [
      { dockerfile: 'Dockerfile', context: 'Dockerfile' },
      'unsafe build.context: "Dockerfile": it is no folder',
    ],
  ] as const
  for (const [build, told] of rows) t.strictSame(check(repository, { build }).told, [told])
})

void tap.test(
  'D-28: options of a build are refused, and no other key is passed over',
  async (t) => {
    const repository = repositoryOf(t)
    const options = ['--secret', '--ssh', '--build-context', 'x=/']
    const refused = (key: string) => `unsafe build.${key}: it is not among the keys that are taken`
    for (const [key, value] of [
      ['options', options],
      ['network', 'host'],
      ['constructor', ''],
      ['Dockerfile', ''],
    ]) {
      t.strictSame(
        check(repository, { build: { dockerfile: 'Dockerfile', [String(key)]: value } }).told,
        [refused(String(key))],
      )
    }
    t.strictSame(check(repository, { build: { dockerfile: 'Dockerfile', cacheFrom: 'x' } }).told, [
      'ignored build.cacheFrom: a matter of speed',
    ])
  },
)

void tap.test('a stage has a name, which is no option', async (t) => {
  const repository = repositoryOf(t)
  for (const target of ['', '-x', '--ssh', 'a b', 'a\n', 'a'.repeat(129)]) {
    t.strictSame(check(repository, { build: { dockerfile: 'Dockerfile', target } }).told, [
      `unsafe build.target: ${JSON.stringify(target)} is no name of a stage`,
    ])
  }
})

void tap.test('a build of another kind, or beside something else, is no build', async (t) => {
  const repository = repositoryOf(t)
  for (const build of [null, 'Dockerfile', [], 1]) {
    t.strictSame(check(repository, { build }), {
      build: undefined,
      told: ['invalid build: expected an object'],
    })
  }
  t.strictSame(check(repository, { build: {} }).told, [
    'invalid build: a build names its dockerfile',
  ])
  t.strictSame(check(repository, { build: { dockerfile: 1 } }).told, [
    'invalid build.dockerfile: expected a text',
  ])
  const beside = { image: 'x', dockerFile: 'Dockerfile', context: '..' }
  const build = { dockerfile: 'Dockerfile' }
  const told = (key: string) => `invalid ${key}: a build stands beside it: one of them`
  t.strictSame(check(repository, { build, ...beside }).told, Object.keys(beside).map(told))
  t.strictSame(check(repository, beside).told, [told('image')])
})
