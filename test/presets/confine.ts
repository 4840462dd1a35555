import { symlinkSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { createCatalog } from '../../src/presets/catalog.ts'
import { confineCatalog } from '../../src/presets/confine.ts'
import { inShort, problemsOf } from '../support/problems-of.ts'

function preset(name: string, more = ''): string {
  return `name: ${name}\ndescription: For a test.\n${more}`
}

void tap.test('presets by path stay under the folder, also behind links', async (t) => {
  const dir = t.testdir({
    'outside.yaml': preset('outside'),
    flow: {
      'in.yaml': preset('in'),
      'out.yaml': preset('out', 'extends: [../outside.yaml]\n'),
      deep: { 'in.yaml': preset('deep', 'extends: [../in.yaml]\n') },
    },
    'flow-too': { 'x.yaml': preset('x') },
  })
  symlinkSync('../outside.yaml', path.join(dir, 'flow/link.yaml'))
  symlinkSync('..', path.join(dir, 'flow/up'))
  symlinkSync('in.yaml', path.join(dir, 'flow/good-link.yaml'))
  const folder = path.join(dir, 'flow')
  const catalog = confineCatalog(createCatalog(), folder)
  const at = { file: path.join(folder, 'w.yaml'), line: 3, column: 7 }

  for (const name of ['./in.yaml', 'in.yaml', './deep/in.yaml', './good-link.yaml']) {
    t.equal(catalog.check(name), undefined, name)
    t.ok(catalog.get(name, at), name)
  }
  const lies = 'lies outside the folder of the file that names it'
  const table: [name: string, why: string][] = [
    ['../outside.yaml', lies],
    [path.join(dir, 'outside.yaml'), lies],
    ['./link.yaml', lies],
    ['./up/outside.yaml', lies],
    ['../flow-too/x.yaml', lies],
    ['./missing.yaml', 'cannot be found'],
  ]
  for (const [name, why] of table) {
    t.equal(catalog.check(name), `the preset ${JSON.stringify(name)} ${why}`)
    t.strictSame(problemsOf(() => catalog.get(name, at)).map(inShort), [
      `3:7 PRESET_UNKNOWN the preset ${JSON.stringify(name)} ${why}`,
    ])
  }
  const inside = { file: path.join(folder, 'out.yaml'), line: 3, column: 11 }
  t.match(problemsOf(() => catalog.get('../outside.yaml', inside)), [{ message: /lies outside/ }])
  t.equal(catalog.get('../in.yaml', { ...at, file: path.join(folder, 'deep/in.yaml') }).name, 'in')
})

void tap.test('names are looked up as ever, and an operator may extend by path', async (t) => {
  const dir = t.testdir({
    flow: {},
    own: { 'mine.yaml': preset('mine'), base: { 'b.yaml': preset('base') } },
  })
  const plain = createCatalog({ dirs: [path.join(dir, 'own')] })
  const catalog = confineCatalog(plain, path.join(dir, 'flow'))
  t.strictSame(catalog.names, plain.names)
  t.equal(catalog.check('llm'), undefined)
  t.equal(catalog.check('lllm'), plain.check('lllm'))
  t.equal(catalog.fileOf('mine'), plain.fileOf('mine'))
  t.equal(catalog.get('mine').name, 'mine')
  const at = { file: path.join(dir, 'own/mine.yaml'), line: 1, column: 1 }
  t.equal(catalog.get('./base/b.yaml', at).name, 'base')
})

void tap.test('a folder that is not there holds no preset', async (t) => {
  const dir = t.testdir({ 'in.yaml': preset('in') })
  const catalog = confineCatalog(createCatalog(), path.join(dir, 'missing'))
  t.match(catalog.check('../in.yaml'), /lies outside/)
  t.match(catalog.check('./in.yaml'), /cannot be found/)
  t.match(problemsOf(() => catalog.get('../in.yaml')), [{ code: 'PRESET_UNKNOWN' }])
})
