#!/usr/bin/env node
// Puts into a folder what `docker build --target prebuilt` takes: the programs of this tree as they are built. It needs no
// network.
import { cpSync, mkdirSync } from 'node:fs'
import path from 'node:path'

const root = path.resolve(import.meta.dirname, '..')
const [target] = process.argv.slice(2)
if (target === undefined) {
  process.stderr.write('usage: node scripts/image-context.js DIR\n')
  process.exit(2)
}
mkdirSync(target, { recursive: true })
for (const name of ['Dockerfile', 'package.json', 'bin', 'presets', 'dist/program']) {
  // A code cache has to be as new as its file.
  const options = { recursive: true, preserveTimestamps: true }
  cpSync(path.join(root, name), path.join(target, name), options)
}
