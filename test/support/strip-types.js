// Node.js 20 takes no types out of a source file by itself, and tap's own loader brings a compiler into every test file,
// which costs more than most of them. This one remembers what it made, by the text that it made it of.
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { register } from 'node:module'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { isMainThread } from 'node:worker_threads'

const PACKAGE = JSON.parse(
  readFileSync(new URL('../../node_modules/rolldown/package.json', import.meta.url), 'utf8'),
)
const FOLDER = fileURLToPath(new URL(`../../.cache/types-${PACKAGE.version}`, import.meta.url))

/** The hook of Node.js for what a module is made of. It runs in a thread of its own. */
export async function load(url, context, next) {
  const { protocol, pathname } = new URL(url)
  if (protocol !== 'file:' || !pathname.endsWith('.ts')) return next(url, context)
  return { format: 'module', shortCircuit: true, source: await stripped(fileURLToPath(url)) }
}

async function stripped(file) {
  const source = readFileSync(file, 'utf8')
  const kept = path.join(FOLDER, createHash('sha256').update(`${file}\n${source}`).digest('hex'))
  try {
    return readFileSync(kept, 'utf8')
  } catch {
    // It is made now.
  }
  const { transformSync } = await import('rolldown/utils')
  const { code, map, errors } = transformSync(file, source, { sourcemap: true, tsconfig: false })
  if (errors.length > 0) throw new Error(`${file}: ${errors[0].message}`)
  const inline = Buffer.from(JSON.stringify(map)).toString('base64')
  const text = `${code}\n//# sourceMappingURL=data:application/json;base64,${inline}\n`
  mkdirSync(FOLDER, { recursive: true })
  const own = `${kept}.${process.pid}`
  writeFileSync(own, text)
  renameSync(own, kept)
  return text
}

if (isMainThread) register(import.meta.url)
