import { readFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { parsePreset } from '../../src/policy/parse.ts'
import { createCatalog } from '../../src/presets/catalog.ts'
import { compilePresets, findCompiled, readCompiled } from '../../src/presets/compiled.ts'
import { composePolicy } from '../../src/presets/compose.ts'

const BUILT = path.resolve(import.meta.dirname, '../../dist/program/presets.json')

void tap.test('what a build keeps of the built-in presets is what their text says', async (t) => {
  const built = readCompiled(BUILT)
  const catalog = createCatalog({ compiled: new Map() })
  t.equal(built.size, catalog.names.length)
  for (const name of catalog.names) {
    const file = catalog.fileOf(name) ?? ''
    const kept = findCompiled(built, readFileSync(file, 'utf8'), file)
    // Keys whose value is undefined are not in JSON.
    t.same(JSON.parse(JSON.stringify(kept)), JSON.parse(JSON.stringify(catalog.get(name))), name)
    t.equal(
      composePolicy({ presets: [name] }, createCatalog({ compiled: built })).policy.digest,
      composePolicy({ presets: [name] }, catalog).policy.digest,
      `${name}: the same policy`,
    )
  }
})

void tap.test('a text that was changed since is read, not what was kept of another', async (t) => {
  const text = 'name: mine\ndescription: For a test.\nrules: [a.example]\n'
  const kept = JSON.stringify({ ...JSON.parse(compilePresets([[text, parsePreset(text, 'mine.yaml')]])) })
  const dir = t.testdir({ 'mine.yaml': text.replace('a.example', 'b.example'), 'kept.json': kept })
  const compiled = readCompiled(path.join(dir, 'kept.json'))
  t.equal(compiled.size, 1)
  const [rule] = createCatalog({ dirs: [dir], compiled }).get('mine').rules
  t.equal(rule?.text, 'b.example')
  const same = findCompiled(compiled, text, '/elsewhere/mine.yaml')
  t.match(same, { file: '/elsewhere/mine.yaml', rules: [{ text: 'a.example' }] })
})

void tap.test('the file of a reference is that of the text, wherever it was compiled', async (t) => {
  const text = 'name: mine\ndescription: For a test.\nextends: [other]\n'
  const compiled = new Map(
    Object.entries(JSON.parse(compilePresets([[text, parsePreset(text, 'there/mine.yaml')]])) as object),
  )
  t.strictSame(findCompiled(compiled, text, '/here/mine.yaml')?.extends, [
    { name: 'other', at: { file: '/here/mine.yaml', line: 3, column: 11 } },
  ])
})

void tap.test('without a file, or with one that is no JSON, every preset is read from its text', async (t) => {
  const dir = t.testdir({ 'broken.json': '{' })
  t.equal(readCompiled(path.join(dir, 'missing.json')).size, 0)
  t.equal(readCompiled(path.join(dir, 'broken.json')).size, 0)
  t.equal(readCompiled().size, 0, 'a tree of sources has none')
})
