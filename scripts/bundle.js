#!/usr/bin/env node
// Puts the programs and all that they need into a few files under dist/program. A run waits for its program to load, and
// a few hundred modules take five times as long as these. Names are kept: they stand in stack traces. The built-in presets
// go beside them as they are when they have been read and checked, and so does what V8 makes of each file.
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { rolldown } from 'rolldown'
import { cachePathOf, compile } from '../bin/load-program.js'

const root = path.resolve(import.meta.dirname, '..')
const dist = path.join(root, 'dist')
const folder = path.join(dist, 'program')

rmSync(folder, { recursive: true, force: true })
const bundle = await rolldown({
  input: {
    'iterion-egress': path.join(dist, 'cli/program.js'),
    'serve-worker': path.join(dist, 'cli/serve-worker.js'),
    health: path.join(dist, 'cli/health.js'),
    'netns-helper': path.join(dist, 'door/netns-helper.js'),
    'relay-program': path.join(dist, 'door/relay-program.js'),
    'wrap-helper': path.join(dist, 'door/wrap-helper.js'),
  },
  platform: 'node',
  // Some packages have a form for every loader there ever was, which no bundler can read, and a plain one.
  resolve: { mainFields: ['module', 'main'] },
})
await bundle.write({
  dir: folder,
  format: 'cjs',
  entryFileNames: '[name].cjs',
  chunkFileNames: '[name]-[hash].cjs',
  minify: { compress: true, mangle: false, codegen: { removeWhitespace: true } },
})
await bundle.close()

const { compilePresets } = await import('../dist/presets/compiled.js')
const { parsePreset } = await import('../dist/policy/parse.js')
const presets = readdirSync(path.join(root, 'presets')).map((name) => {
  const text = readFileSync(path.join(root, 'presets', name), 'utf8')
  return [text, parsePreset(text, name)]
})
writeFileSync(path.join(folder, 'presets.json'), compilePresets(presets))

// Every function is compiled for its cache: what is in none is compiled when it is called.
const files = readdirSync(folder).filter((name) => name.endsWith('.cjs'))
for (const file of files.map((name) => path.join(folder, name))) {
  setFlagsFromString('--no-lazy')
  const script = compile(file)
  // A cache is good only with the flags that it was written with.
  setFlagsFromString('--lazy')
  writeFileSync(cachePathOf(file), script.createCachedData())
}
