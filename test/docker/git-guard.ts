import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import path from 'node:path'
import tap, { type Test } from 'tap'
import { NO_ENGINE, TEST_IMAGE } from '../support/docker.ts'
import { openDesk } from '../support/sandbox-run.ts'

const PLANT = 'echo /tmp/elsewhere > .git/commondir'
const LOCK = 'git config core.fsmonitor /tmp/x; echo "config: $?"'

function openRepository(t: Test) {
  const desk = openDesk(t)
  const env = { PATH: process.env['PATH'], HOME: desk.home }
  execFileSync('git', ['init', '-q', desk.workspace], { env })
  const commondir = path.join(desk.workspace, '.git/commondir')
  const aside = () =>
    readdirSync(path.join(desk.workspace, '.git')).filter((name) => name.includes('.sandboxed-'))
  return { desk, commondir, aside }
}

void tap.test(
  'git metadata is locked during a run, and looked after at its end',
  { skip: NO_ENGINE },
  async (t) => {
    const { desk, commondir, aside } = openRepository(t)
    const { code, stdout } = await desk.runCommand([], ['sh', '-c', `${LOCK}; ${PLANT}`])
    t.equal(code, 0)
    t.notMatch(stdout, 'config: 0')
    t.notOk(existsSync(commondir))
    const to = `${commondir}.sandboxed-${desk.record().id}`
    t.strictSame(desk.eventsOf('sandbox_git_metadata_changed'), [
      { moved: [{ path: commondir, to }], failed: [] },
    ])
    t.strictSame(aside(), [path.basename(to)])
    t.notOk(existsSync(`${desk.iterionHome}/runs/${desk.record().id}/guard.json`))
  },
)

void tap.test(
  'what a killed run planted is put aside by the reaper',
  { skip: NO_ENGINE },
  async (t) => {
    const { desk, commondir, aside } = openRepository(t)
    const running = desk.start([
      'run',
      '--image',
      TEST_IMAGE,
      '--',
      'sh',
      '-c',
      `${PLANT}; echo up; sleep 300`,
    ])
    await running.hears('up')
    running.child.kill('SIGKILL')
    await running.done
    t.ok(existsSync(commondir))
    await desk.run(['reap'])
    t.notOk(existsSync(commondir))
    t.equal(aside().length, 1)
  },
)

void tap.test(
  'what a killed run planted is put aside when it is resumed',
  { skip: NO_ENGINE },
  async (t) => {
    const { desk, commondir, aside } = openRepository(t)
    const script = `test -e again && exit 0; touch again; ${PLANT}; echo up; sleep 300`
    const running = desk.start(['run', '--image', TEST_IMAGE, '--', 'sh', '-c', script])
    await running.hears('up')
    running.child.kill('SIGKILL')
    await running.done
    t.match(await desk.run(['resume', desk.record().id]), { code: 0 })
    t.notOk(existsSync(commondir))
    t.equal(aside().length, 1)
    t.equal(desk.eventsOf('sandbox_git_metadata_changed').length, 1)
  },
)
