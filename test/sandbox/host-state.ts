import { existsSync, mkdirSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import tap, { type Test } from 'tap'
import { removeMade } from '../../src/sandbox/git-mounts.ts'
import { type HostState, hostState } from '../../src/sandbox/host-state.ts'

function testHome(t: Test): string {
  return t.testdir({
    '.iterion': {
      runs: { r1: {} },
      hooks: {},
      'config.yaml': '',
      projects: { p1: { memory: {}, bots: { b1: { memory: {} } }, worktrees: { w: {} } } },
    },
    '.claude': {
      'settings.json': '{}',
      'CLAUDE.md': '',
      hooks: { 'a.sh': '' },
      projects: { p: {} },
      'history.jsonl': '',
      '.credentials.json': '{}',
      'shell-snapshots': { 's.sh': '' },
    },
    work: {},
  })
}

function ask(home: string, workspace = join(home, 'work'), iterionHome = join(home, '.iterion')) {
  return hostState({
    home,
    iterionHome,
    workspace: { source: workspace, target: workspace, readOnly: false },
    owner: { uid: 1000, gid: 1001 },
    scratchBytes: 4096,
  })
}

const lines = ({ mounts }: HostState, home: string) =>
  mounts.map(({ target, readOnly }) => `${readOnly ? 'ro' : 'rw'} ${target.slice(home.length + 1)}`)

void tap.test('state is read-only but for what an agent keeps', async (t) => {
  const home = testHome(t)
  const state = ask(home)
  t.strictSame(lines(state, home), [
    'ro .iterion',
    'rw .iterion/memory',
    'rw .iterion/projects/p1/memory',
    'rw .iterion/projects/p1/bots/b1/memory',
    'ro .iterion/runs',
    'ro .claude',
    'rw .claude/projects',
    'rw .claude/todos',
    'rw .claude/tasks',
    'rw .claude/plans',
    'rw .claude/history.jsonl',
    'rw .claude/.credentials.json',
  ])
  for (const { source, target } of state.mounts) t.equal(source, target)
  t.strictSame(state.skipped, [])
})

void tap.test('what is run or restored later is a scratch folder', async (t) => {
  const home = testHome(t)
  const { scratch } = ask(home)
  const names = scratch.map(({ target }) => target.slice(home.length + 1))
  for (const name of ['shell-snapshots', 'session-env', 'file-history', 'backups']) {
    t.ok(names.includes(`.claude/${name}`), name)
  }
  const owner = { uid: 1000, gid: 1001 }
  t.match(scratch[0], { mode: '0700', owner, sizeBytes: 4096, executable: true })
})

void tap.test('missing folders are made, and removed if nobody used them', async (t) => {
  const home = testHome(t)
  const { made } = ask(home)
  t.ok(made.includes(join(home, '.claude/todos')))
  t.notOk(made.includes(join(home, '.claude/projects')))
  mkdirSync(join(home, '.claude/todos/used'))
  removeMade(made)
  t.ok(existsSync(join(home, '.claude/todos/used')))
  t.notOk(existsSync(join(home, '.claude/plans')))
  t.ok(existsSync(join(home, '.claude/shell-snapshots/s.sh')))
})

void tap.test('a file that is not there is not made', async (t) => {
  const home = testHome(t)
  rmSync(join(home, '.claude/.credentials.json'))
  const { skipped } = ask(home)
  t.strictSame(skipped, [
    { path: join(home, '.claude/.credentials.json'), reason: 'it is not there' },
  ])
  t.notOk(existsSync(join(home, '.claude/.credentials.json')))
})

void tap.test('what is elsewhere, or not there, is skipped and said', async (t) => {
  const outside = t.testdir({ home: { work: {} }, out: {} })
  const home = join(outside, 'home')
  symlinkSync('../out', join(home, '.claude'))
  const { mounts, skipped } = ask(home, undefined, join(outside, 'elsewhere'))
  t.strictSame(mounts, [])
  t.strictSame(skipped, [
    { path: join(home, '.iterion'), reason: 'it is not there' },
    { path: join(home, '.claude'), reason: 'it leads out of the home folder' },
  ])
})

void tap.test('a link inside the home is bound as what it is, at its own path', async (t) => {
  const home = t.testdir({ dot: { claude: { projects: {} } }, work: {}, store: {} })
  symlinkSync('dot/claude', join(home, '.claude'))
  t.match(ask(home, undefined, join(home, 'store')).mounts, [
    { source: join(home, 'dot/claude'), target: join(home, '.claude'), readOnly: true },
    { source: join(home, 'dot/claude/projects'), target: join(home, '.claude/projects') },
  ])
})

void tap.test('a link among what is kept is skipped', async (t) => {
  const home = testHome(t)
  rmSync(join(home, '.claude/projects'), { recursive: true })
  symlinkSync('/etc', join(home, '.claude/projects'))
  const state = ask(home)
  t.notOk(lines(state, home).includes('rw .claude/projects'))
  t.match(state.skipped, [{ reason: 'it is no folder of its own' }])
})

void tap.test('what the workspace holds is not bound twice', async (t) => {
  const home = testHome(t)
  const { mounts, skipped } = ask(home, join(home, '.iterion'))
  t.notOk(mounts.some(({ source }) => source.includes('.iterion')))
  t.strictSame(skipped, [{ path: join(home, '.iterion'), reason: 'the workspace holds it' }])
  const inside = ask(home, join(home, '.iterion/projects/p1/worktrees/w'))
  t.equal(lines(inside, home)[0], 'ro .iterion', 'a workspace in it changes nothing')
})

void tap.test('the record of runs is read-only wherever it is', async (t) => {
  const home = testHome(t)
  mkdirSync(join(home, '.claude/projects/odd/runs'), { recursive: true })
  const odd = ask(home, join(home, 'work'), join(home, '.claude/projects/odd'))
  t.ok(lines(odd, home).includes('ro .claude/projects/odd/runs'))
  const far = ask(home, join(home, 'work'), '/elsewhere')
  t.notOk(lines(far, home).some((line) => line.endsWith('/runs')))
})
