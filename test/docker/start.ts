import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { NO_ENGINE, TEST_IMAGE } from '../support/docker.ts'
import { openDesk, ROOT } from '../support/sandbox-run.ts'

/** Writes down which of Node's own modules are loaded when the first program is started. */
const WATCH = `const children = require('node:child_process')
const { spawn } = children
children.spawn = (...args) => {
  children.spawn = spawn
  require('node:fs').writeFileSync(process.env.SEEN, process.moduleLoadList.join('\\n'))
  return spawn(...args)
}
`

void tap.test(
  'the engine is asked before anything is loaded that the question does not need',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    const file = (name: string) => path.join(desk.folder, name)
    writeFileSync(file('watch.cjs'), WATCH)
    const program = path.join(ROOT, 'bin/iterion-egress.js')
    const run = ['run', '--image', TEST_IMAGE, '--', 'true']
    // The test runner's own hooks in a child would be seen too.
    const { status, stderr } = spawnSync(
      '/usr/bin/env',
      ['-u', 'NODE_OPTIONS', process.execPath, '--require', file('watch.cjs'), program, ...run],
      {
        cwd: desk.workspace,
        encoding: 'utf8',
        env: {
          PATH: process.env['PATH'],
          HOME: desk.home,
          TMPDIR: desk.tempRoot,
          SEEN: file('seen'),
        },
      },
    )
    t.equal(status, 0, stderr)
    const seen = readFileSync(file('seen'), 'utf8')
      .split('\n')
      .map((line) => line.replace(/^NativeModule /, ''))
    t.ok(seen.includes('child_process'))
    for (const name of ['assert', 'crypto', 'dns', 'dns/promises', 'http', 'tty']) {
      t.notOk(seen.includes(name), name)
    }
  },
)
