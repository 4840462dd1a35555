// Loads the files of dist/program, each with the code cache that the build put beside it: compiling them anew is much of
// the time until a command does something. A cache is left out that is missing, older than its file, or made by a Node.js
// or with flags of V8 that differ.
const { readFileSync, statSync } = require('node:fs')
const { createRequire } = require('node:module')
const path = require('node:path')
const { Script } = require('node:vm')

const modules = new Map()

/**
 * Answers what a CommonJS file exports, as `require` does.
 *
 * @param {string} file its absolute path
 * @returns {any} what it exports
 */
function load(file) {
  const known = modules.get(file)
  if (known !== undefined) return known.exports
  const module = { exports: {} }
  modules.set(file, module)
  const folder = path.dirname(file)
  const outside = createRequire(file)
  const inside = (name) => (name.startsWith('./') ? load(path.join(folder, name)) : outside(name))
  const run = compile(file, readCache(file)).runInThisContext()
  run.call(module.exports, module.exports, inside, module, file, folder)
  return module.exports
}

/**
 * Compiles a CommonJS file as a function of what such a file is given.
 *
 * @param {string} file
 * @param {Buffer | undefined} cachedData
 * @returns {Script}
 */
function compile(file, cachedData) {
  // In front of the first line, so that every line keeps its number.
  const head = '(function (exports, require, module, __filename, __dirname) { '
  return new Script(`${head}${readFileSync(file, 'utf8')}\n})`, { filename: file, cachedData })
}

/** Where the code cache of a file is. */
const cachePathOf = (file) => `${file}.cache`

function readCache(file) {
  try {
    // V8 looks at the length of the text alone.
    if (statSync(cachePathOf(file)).mtimeMs < statSync(file).mtimeMs) return undefined
    return readFileSync(cachePathOf(file))
  } catch {
    return undefined
  }
}

module.exports = { load, compile, cachePathOf }
