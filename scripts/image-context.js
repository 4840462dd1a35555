#!/usr/bin/env node
// Puts into a folder what an image is made of, the programs of this tree as they are built, and a Dockerfile that needs no
// network: that of the project, up to where it would build them.
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

const root = path.resolve(import.meta.dirname, '..')
const [target] = process.argv.slice(2)
if (target === undefined) {
  process.stderr.write('usage: node scripts/image-context.js DIR\n')
  process.exit(2)
}
mkdirSync(target, { recursive: true })
const BUILD = 'FROM ${BASE} AS build\n'
const [runtime, built] = readFileSync(path.join(root, 'Dockerfile'), 'utf8').split(BUILD)
if (built === undefined) throw new Error(`the Dockerfile has no line ${BUILD}`)
writeFileSync(path.join(target, 'Dockerfile'), `${runtime}COPY dist/program dist/program\n`)
for (const name of ['package.json', 'bin', 'presets', 'dist/program']) {
  // A code cache has to be as new as its file.
  const options = { recursive: true, preserveTimestamps: true }
  cpSync(path.join(root, name), path.join(target, name), options)
}
