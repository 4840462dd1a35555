import { existsSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import type { Script } from 'node:vm'
import tap from 'tap'

const { load, compile, cachePathOf } = createRequire(import.meta.url)(
  '../../bin/load-program.js',
) as {
  load: (file: string) => unknown
  compile: (file: string, cachedData?: Buffer) => Script
  cachePathOf: (file: string) => string
}

const PROGRAMS = path.resolve(import.meta.dirname, '../../dist/program')

/** What a cache says of the V8 that wrote it: its version, its flags. */
function makerOf(cache: Buffer): string {
  return cache.subarray(4, 8).toString('hex') + cache.subarray(12, 16).toString('hex')
}

void tap.test(
  'every file of the built programs has a cache that its maker takes back',
  async (t) => {
    const files = readdirSync(PROGRAMS).filter((name) => name.endsWith('.cjs'))
    t.ok(files.length > 20)
    const own = compile(path.join(PROGRAMS, '../../bin/load-program.js')).createCachedData()
    for (const file of files.map((name) => path.join(PROGRAMS, name))) {
      const cache = readFileSync(cachePathOf(file))
      // V8 must not know the text: then it would not look at the cache.
      const { cachedDataRejected } = compile(file, cache)
      t.equal(cachedDataRejected, makerOf(cache) !== makerOf(own), path.basename(file))
    }
  },
)

/** Files `one.cjs` and so on, the cache of each beside it. */
function openFiles(t: Tap, texts: Readonly<Record<string, string>>): (name: string) => string {
  const folder = t.testdir({ ...texts })
  const at = (name: string) => path.join(folder, name)
  for (const name of Object.keys(texts)) {
    writeFileSync(cachePathOf(at(name)), compile(at(name)).createCachedData())
  }
  return at
}

type Tap = Pick<typeof tap, 'testdir'>

void tap.test('a file is what it is now, whatever the cache holds', async (t) => {
  const from = { 'a.cjs': 'exports.a = 1', 'b.cjs': 'exports.a = 1', 'c.cjs': 'exports.a = 1' }
  const at = openFiles(t, { ...from, 'd.cjs': 'exports.a = 1' })
  t.same(load(at('a.cjs')), { a: 1 })
  // As long as it was: V8 would take the cache for its own.
  writeFileSync(at('b.cjs'), 'exports.a = 2')
  const past = new Date(Date.now() - 60_000)
  utimesSync(cachePathOf(at('b.cjs')), past, past)
  t.same(load(at('b.cjs')), { a: 2 }, 'a file that is newer than its cache')
  writeFileSync(cachePathOf(at('c.cjs')), 'no cache')
  t.same(load(at('c.cjs')), { a: 1 }, 'a cache that is none')
  const alien = readFileSync(cachePathOf(at('d.cjs')))
  alien.writeUInt32LE(1, 4)
  writeFileSync(cachePathOf(at('d.cjs')), alien)
  t.same(load(at('d.cjs')), { a: 1 }, 'a cache of another V8')
})

void tap.test('a file is given what require gives it', async (t) => {
  const at = openFiles(t, {
    'one.cjs': `exports.early = true
exports.two = require('./two.cjs')
exports.again = require('./two.cjs') === exports.two
exports.places = [__filename, __dirname]
exports.self = this === exports
exports.builtin = require('node:path').sep
// the end has no line break`,
    'two.cjs': `exports.seen = { ...require('./one.cjs') }
exports.fail = () => {
  throw new Error('here')
}`,
    'whole.cjs': 'module.exports = () => "whole"',
  })
  const one = load(at('one.cjs')) as Record<string, unknown> & {
    two: { seen: object; fail: () => void }
  }
  t.match(one, {
    again: true,
    places: [at('one.cjs'), path.dirname(at('one.cjs'))],
    self: true,
    builtin: path.sep,
  })
  t.match(one.two.seen, { early: true }, 'half a module in a circle')
  try {
    one.two.fail()
  } catch (error) {
    t.match((error as Error).stack, /\/two\.cjs:3:9/, 'every line has its number')
  }
  t.equal(load(at('one.cjs')), one, 'once')
  t.equal((load(at('whole.cjs')) as () => string)(), 'whole')
  t.notOk(existsSync(at('none.cjs')))
  t.throws(() => load(at('none.cjs')), { code: 'ENOENT' })
})
