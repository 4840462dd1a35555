import path from 'node:path'
import tap from 'tap'
import { createCatalog } from '../../src/presets/catalog.ts'

const preset = (name: string) => `name: ${name}\ndescription: For a test.\n`

void tap.test('the built-in presets are listed in order and load under their names', async (t) => {
  const catalog = createCatalog()
  t.ok(catalog.names.includes('iterion-default'))
  t.strictSame(catalog.names, catalog.names.toSorted())
  for (const name of catalog.names) {
    t.equal(catalog.get(name).name, name)
    t.equal(catalog.check(name), undefined)
    t.equal(path.basename(catalog.fileOf(name) ?? ''), `${name}.yaml`)
  }
})

void tap.test('a folder adds its presets, each read once', async (t) => {
  const dir = t.testdir({ 'mine.yaml': preset('mine'), 'README.md': 'no preset', 'other.yml': preset('other') })
  const catalog = createCatalog({ dirs: [dir] })
  t.ok(catalog.names.includes('mine'))
  t.notOk(catalog.names.includes('other'), 'a name ends in .yaml')
  t.equal(catalog.get('mine'), catalog.get('mine'))
  t.equal(catalog.fileOf('mine'), path.join(dir, 'mine.yaml'))
})

void tap.test('a preset can be named by its path, from the file that names it', async (t) => {
  const dir = t.testdir({ 'mine.yaml': preset('mine'), 'mine.yml': preset('mine') })
  const catalog = createCatalog()
  const at = { file: path.join(dir, 'policy.yaml'), line: 1, column: 1 }
  t.equal(catalog.get('./mine.yaml', at).name, 'mine')
  t.equal(catalog.get('mine.yml', at).name, 'mine')
  t.equal(catalog.get(path.join(dir, 'mine.yaml')).name, 'mine')
  t.equal(catalog.check('./anything'), undefined)
  t.equal(catalog.fileOf('./mine.yaml'), undefined)
  t.throws(() => catalog.get('./missing.yaml', at), { code: 'FILE_UNREADABLE' })
})

void tap.test('an unknown name is answered with near ones, or with all', async (t) => {
  const catalog = createCatalog()
  const at = { file: 'p.yaml', line: 2, column: 5 }
  t.throws(() => catalog.get('iterion-defualt', at), {
    code: 'PRESET_UNKNOWN',
    message: /^there is no preset "iterion-defualt"; did you mean iterion-default/,
    problems: [{ at }],
  })
  t.match(catalog.check('zzzzzzzzzzzzzzzz'), /there are .*iterion-default/)
  for (const name of ['__proto__', 'constructor', '', 'toString']) {
    t.match(catalog.check(name), /there is no preset/, name)
    t.throws(() => catalog.get(name), { code: 'PRESET_UNKNOWN' }, name)
  }
})

void tap.test('the name of a built-in preset is taken', async (t) => {
  const dir = t.testdir({ 'llm.yaml': preset('llm') })
  t.throws(() => createCatalog({ dirs: [dir] }), { code: 'OPTION_INVALID', message: /the preset name llm is taken by/ })
  const two = t.testdir({ a: { 'mine.yaml': preset('mine') }, b: { 'mine.yaml': preset('mine') } })
  const dirs = [path.join(two, 'a'), path.join(two, 'b')]
  t.throws(() => createCatalog({ dirs }), { code: 'OPTION_INVALID' })
})

void tap.test('a folder that is none, and a preset by another name, are refused', async (t) => {
  const dir = t.testdir({ 'mine.yaml': preset('yours') })
  t.throws(() => createCatalog({ dirs: [path.join(dir, 'missing')] }), { code: 'FILE_UNREADABLE' })
  t.throws(() => createCatalog({ dirs: [dir] }).get('mine'), { code: 'POLICY_SHAPE', message: /calls itself yours; its file name says mine/ })
})
