import { mkdirSync, renameSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import tap, { type Test } from 'tap'
import {
  definesSandbox,
  devcontainerName,
  readDevcontainerFile,
  repositoryOf,
} from '../../../src/sandbox/devcontainer/find-devcontainer.ts'
import { makeFifo } from '../../support/fifo.ts'

const IN_FOLDER = '.devcontainer/devcontainer.json'
const AT_TOP = '.devcontainer.json'
type Content = NonNullable<Parameters<Test['testdir']>[0]>

const repositoryWith = (t: Test, content: Content) =>
  path.join(t.testdir({ repo: content }), 'repo')
const read = (repository: string) =>
  readDevcontainerFile(repository, devcontainerName(repository) ?? 'none')

void tap.test('the file in .devcontainer comes before the one at the top', async (t) => {
  const both = { '.devcontainer': { 'devcontainer.json': 'a' }, [AT_TOP]: 'b' }
  const repository = repositoryWith(t, both)
  t.strictSame(read(repository), {
    name: IN_FOLDER,
    folder: path.join(repository, '.devcontainer'),
    text: 'a',
  })
})

void tap.test('else it is the one at the top, and no other', async (t) => {
  const other = {
    'devcontainer.json': '',
    '.devcontainer': { python: { 'devcontainer.json': '' } },
  }
  const repository = repositoryWith(t, other)
  t.notOk(definesSandbox(repository))
  t.equal(devcontainerName(repository), undefined)
  writeFileSync(path.join(repository, AT_TOP), 'b')
  t.ok(definesSandbox(repository))
  t.strictSame(read(repository), { name: AT_TOP, folder: repository, text: 'b' })
  t.notOk(definesSandbox(path.join(repository, 'nowhere')))
})

void tap.test('a .devcontainer that is a file is no place of one', async (t) => {
  const repository = repositoryWith(t, { '.devcontainer': '{}', [AT_TOP]: 'b' })
  t.equal(devcontainerName(repository), AT_TOP)
})

void tap.test(
  'a link inside of the repository is followed, and paths start where it stands',
  async (t) => {
    const repository = repositoryWith(t, { config: { 'dev.json': 'x' }, '.devcontainer': {} })
    symlinkSync('../config/dev.json', path.join(repository, IN_FOLDER))
    t.strictSame(read(repository), {
      name: IN_FOLDER,
      folder: path.join(repository, '.devcontainer'),
      text: 'x',
    })
  },
)

void tap.test('a link that leads out is refused, and nothing else is taken', async (t) => {
  const root = t.testdir({ outside: { 'devcontainer.json': '{}' }, repo: { [AT_TOP]: '{}' } })
  const repository = path.join(root, 'repo')
  const out = {
    code: 'SANDBOX_SPEC_UNSAFE',
    message: `${IN_FOLDER}: the file leads out of the repository`,
  }
  symlinkSync('../outside', path.join(repository, '.devcontainer'))
  t.equal(devcontainerName(repository), IN_FOLDER)
  t.throws(() => read(repository), out, 'its folder')
  const second = path.join(root, 'second')
  mkdirSync(path.join(second, '.devcontainer'), { recursive: true })
  symlinkSync('../../outside/devcontainer.json', path.join(second, IN_FOLDER))
  t.throws(() => read(second), out, 'itself')
  const third = path.join(root, 'third')
  mkdirSync(third)
  symlinkSync('../back', path.join(third, '.devcontainer'))
  mkdirSync(path.join(root, 'back'))
  writeFileSync(path.join(third, 'real.json'), '{}')
  symlinkSync('../third/real.json', path.join(root, 'back/devcontainer.json'))
  t.throws(() => read(third), out, 'out, and in again')
})

void tap.test('a link to nothing, or to itself, is there and is refused', async (t) => {
  for (const target of ['nothing.json', 'devcontainer.json']) {
    const repository = repositoryWith(t, { '.devcontainer': {}, [AT_TOP]: '{}' })
    symlinkSync(target, path.join(repository, IN_FOLDER))
    const message = `${IN_FOLDER}: the file leads nowhere`
    t.throws(() => read(repository), { code: 'SANDBOX_SPEC_UNSAFE', message }, target)
  }
})

void tap.test('a repository whose name begins alike is another one', async (t) => {
  const root = t.testdir({ repo: { '.devcontainer': {} }, 'repo-2': { 'x.json': '{}' } })
  const repository = path.join(root, 'repo')
  symlinkSync('../../repo-2/x.json', path.join(repository, IN_FOLDER))
  t.throws(() => read(repository), { code: 'SANDBOX_SPEC_UNSAFE' })
})

void tap.test('what is no regular file is refused, and does not hold the run up', async (t) => {
  const made = makeFifo(t)
  const pipe = path.dirname(made)
  mkdirSync(path.join(pipe, '.devcontainer'))
  renameSync(made, path.join(pipe, IN_FOLDER))
  const message = /it is not a regular file$/
  t.throws(() => read(pipe), { code: 'SANDBOX_SPEC_UNSAFE', message })
  const folder = repositoryWith(t, { '.devcontainer': { 'devcontainer.json': {} } })
  t.throws(() => read(folder), { code: 'SANDBOX_SPEC_UNSAFE', message })
  const device = repositoryWith(t, { '.devcontainer': {} })
  symlinkSync('/dev/zero', path.join(device, IN_FOLDER))
  t.throws(() => read(device), { code: 'SANDBOX_SPEC_UNSAFE', message: /leads out/ })
})

void tap.test('1 MiB is taken, and not a byte more', async (t) => {
  const repository = repositoryWith(t, { [AT_TOP]: ' '.repeat(1024 * 1024) })
  t.equal(read(repository).text.length, 1024 * 1024)
  truncateSync(path.join(repository, AT_TOP), 1024 * 1024 + 1)
  t.throws(() => read(repository), {
    code: 'SANDBOX_SPEC_UNSAFE',
    message: `${AT_TOP}: it has 1048577 bytes; the most is 1 MiB`,
  })
})

void tap.test('the text is UTF-8, with its byte order mark', async (t) => {
  const repository = repositoryWith(t, { [AT_TOP]: '\u{feff}é' })
  t.equal(read(repository).text, '\u{feff}é')
  writeFileSync(path.join(repository, AT_TOP), Buffer.from([0x7b, 0xff, 0x7d]))
  const message = `${AT_TOP}: it is not UTF-8`
  t.throws(() => read(repository), { code: 'FILE_UNREADABLE', message })
  writeFileSync(path.join(repository, AT_TOP), Buffer.from('\u{feff}{}', 'utf16le'))
  t.throws(() => read(repository), { code: 'FILE_UNREADABLE', message })
})

void tap.test('the repository of a folder is the nearest one around it', async (t) => {
  const root = t.testdir({
    plain: { deep: {} },
    outer: { '.git': {}, a: { b: {}, inner: { '.git': 'gitdir: x', c: {} } } },
  })
  const at = (name: string) => path.join(root, name)
  t.equal(repositoryOf(at('outer')), at('outer'))
  t.equal(repositoryOf(at('outer/a/b')), at('outer'))
  t.equal(repositoryOf(at('outer/a/inner/c')), at('outer/a/inner'), 'also a worktree')
  symlinkSync('outer/a/b', at('link'))
  t.equal(repositoryOf(at('link')), at('outer'), 'by what it really is')
  t.equal(repositoryOf(at('nowhere')), undefined)
  t.not(repositoryOf(at('plain/deep')), at('plain'))
  t.equal(repositoryOf('/'), undefined)
})
