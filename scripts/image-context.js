#!/usr/bin/env node
// Puts into a folder what `docker build --target prebuilt` takes: this tree as it is built, and of node_modules what runs.
// It needs no network.
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync } from 'node:fs'
import path from 'node:path'

const root = path.resolve(import.meta.dirname, '..')
const [target] = process.argv.slice(2)
if (target === undefined) {
  process.stderr.write('usage: node scripts/image-context.js DIR\n')
  process.exit(2)
}
mkdirSync(target, { recursive: true })
for (const name of ['Dockerfile', 'package.json', 'bin', 'presets', 'dist']) {
  cpSync(path.join(root, name), path.join(target, name), { recursive: true })
}
const listed = execFileSync('npm', ['ls', '--omit=dev', '--all', '--parseable'], {
  cwd: root,
  encoding: 'utf8',
})
const modules = listed
  .split('\n')
  .map((line) => path.relative(root, line))
  .filter((name) => name.startsWith('node_modules'))
for (const name of modules) {
  cpSync(path.join(root, name), path.join(target, name), { recursive: true })
}
