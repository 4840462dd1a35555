import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
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

void tap.test(
  'what one run planted is no part of what the next one found',
  { skip: NO_ENGINE },
  async (t) => {
    const { desk } = openRepository(t)
    const run = ['run', '--image', TEST_IMAGE, '--', 'sh', '-c']
    const plant = 'git init -q sub && git -C sub config core.fsmonitor /tmp/x'
    const running = desk.start([...run, `${plant}; echo up; sleep 300`])
    await running.hears('up')
    const first = desk.record().id
    // The second starts while the first works, and gives back what is put aside at the first one's end.
    const restore =
      'until ls -d sub/.git.sandboxed-*; do sleep 0.1; done; cp -r sub/.git.* sub/.git'
    const second = desk.start([...run, `echo up; ${restore}`])
    await second.hears('up')
    await desk.run(['runs', 'stop', first])
    await Promise.all([running.done, second.done])
    const config = path.join(desk.workspace, 'sub/.git/config')
    t.notOk(existsSync(config) && readFileSync(config, 'utf8').includes('fsmonitor'))
    t.ok(readdirSync(path.join(desk.workspace, 'sub')).some((name) => name.includes('.sandboxed-')))
  },
)
