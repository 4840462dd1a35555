import { symlinkSync } from 'node:fs'
import path from 'node:path'
import tap, { type Test } from 'tap'
import { loadRepository } from '../../../src/sandbox/devcontainer/load-repository.ts'

const USER = { uid: process.getuid?.() ?? 0, gid: 0, name: 'ada' }

function load(t: Test, files: NonNullable<Parameters<Test['testdir']>[0]>, workspace = '.') {
  const root = t.testdir({ repo: files })
  const repository = path.join(root, 'repo')
  symlinkSync('repo', path.join(root, 'link'))
  const question = {
    host: { env: { USER: 'ada', SECRET: 'hidden' }, user: USER },
    repository: path.join(root, 'link'),
    workspace: path.join(root, 'link', workspace),
    operatorEnv: { GIVEN: 'yes' },
  }
  return { repository, loaded: loadRepository(question), again: () => loadRepository(question) }
}

void tap.test('a repository without such a file defines no sandbox', async (t) => {
  t.equal(load(t, { 'README.md': '' }).loaded, undefined)
  const question = {
    host: { env: {}, user: USER },
    repository: '/nowhere',
    workspace: '/',
    operatorEnv: {},
  }
  t.equal(loadRepository(question), undefined)
})

void tap.test('what it defines comes with the file and a digest of its text', async (t) => {
  const { loaded, again } = load(t, { '.devcontainer.json': '{"image": "debian"}' })
  t.match(loaded, {
    file: '.devcontainer.json',
    image: 'debian',
    devcontainer: { image: 'debian' },
  })
  t.equal(loaded?.build, undefined)
  t.equal(loaded?.fault, undefined)
  t.match(loaded?.digest, /^[0-9a-f]{64}$/)
  t.equal(again()?.digest, loaded?.digest)
  const other = load(t, { '.devcontainer.json': '{"image": "debian" }' })
  t.not(other.loaded?.digest, loaded?.digest)
})

void tap.test(
  'variables stand for real places, the workspace and what the operator gives',
  async (t) => {
    const names = [
      'localWorkspaceFolder',
      'localWorkspaceFolderBasename',
      'containerWorkspaceFolder',
    ]
    names.push('devcontainerId', 'localEnv:USER', 'localEnv:GIVEN', 'localEnv:SECRET')
    const containerEnv = Object.fromEntries(names.map((name, i) => [`V${i}`, `\${${name}}`]))
    const text = JSON.stringify({ image: 'x', containerEnv })
    const { repository, loaded, again } = load(t, { '.devcontainer.json': text, app: {} }, 'app')
    const { V3: id = '', ...rest } = loaded?.devcontainer?.containerEnv ?? {}
    const app = path.join(repository, 'app')
    t.strictSame(rest, { V0: app, V1: 'app', V2: app, V4: 'ada', V5: 'yes', V6: '' })
    t.match(id, /^[0-9a-z]{52}$/)
    t.equal(again()?.devcontainer?.containerEnv['V3'], id, 'the same each time')
    t.strictSame(loaded?.devcontainer?.withheld, ['SECRET'])
  },
)

void tap.test('a build is one of the repository', async (t) => {
  const { repository, loaded } = load(t, {
    '.devcontainer': {
      'devcontainer.json': '{"build": {"dockerfile": "Dockerfile"}}',
      Dockerfile: '',
    },
  })
  t.strictSame(loaded?.build, {
    dockerfile: path.join(repository, '.devcontainer/Dockerfile'),
    context: path.join(repository, '.devcontainer'),
    args: {},
    target: undefined,
  })
})

void tap.test('a file that is refused is an answer, with its name', async (t) => {
  const rows = [
    ['.devcontainer.json', '{', 'DEVCONTAINER_INVALID'],
    ['.devcontainer.json', '{"image": "x", "privileged": true}', 'SANDBOX_SPEC_UNSAFE'],
    ['.devcontainer.json', Buffer.from([0xff]), 'FILE_UNREADABLE'],
    ['.devcontainer.json', ' '.repeat(1024 * 1024 + 1), 'SANDBOX_SPEC_UNSAFE'],
  ] as const
  for (const [file, text, code] of rows) {
    const { loaded } = load(t, { [file]: text })
    t.strictSame(Object.keys(loaded ?? {}), ['file', 'fault'], 'and nothing of what it says')
    t.equal(loaded?.file, file)
    t.match(loaded?.fault, { name: 'EgressError', code })
  }
})

void tap.test('the second file is not taken in the place of the first', async (t) => {
  const { loaded } = load(t, {
    '.devcontainer': { 'devcontainer.json': '{' },
    '.devcontainer.json': '{"image": "x"}',
  })
  t.equal(loaded?.file, '.devcontainer/devcontainer.json')
  t.equal(loaded?.fault?.at?.file, '.devcontainer/devcontainer.json')
  t.equal(loaded?.image, undefined)
})
