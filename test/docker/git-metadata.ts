import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import tap, { type Test } from 'tap'
import { type GitSnapshot, putAside, snapshotGit } from '../../src/sandbox/git-guard.ts'
import { gitMounts } from '../../src/sandbox/git-mounts.ts'
import { type BindMount, mergeMounts, mountArg } from '../../src/sandbox/mounts.ts'
import { type Attack, ATTACKS, RUN, VICTIM } from '../support/git-attacks.ts'
import { TEST_IMAGE } from '../support/docker.ts'
import { git, makeRepository } from '../support/git-repository.ts'

// A sandbox tries to make git on the host run a program. Each attack has a workspace of its own; all of them are in one
// container. The same without the mounts does get through: else this would show nothing.

/** What an operator does in a workspace after a run. */
const USUAL: readonly (readonly string[])[] = [
  ['status'],
  ['diff'],
  ['log', '-p'],
  ['branch', '-a'],
  ['commit', '-q', '--allow-empty', '-m', 'theirs'],
]

interface Scene {
  readonly attack: Attack
  readonly workspace: BindMount
  /** Where the operator works afterwards. */
  readonly folder: string
  readonly mark: string
  readonly victim: string
}

function makeScene(root: string, attack: Attack): Scene {
  const main = makeRepository(join(root, attack.name, 'main'))
  writeFileSync(join(main, 'file'), 'x\n')
  git(main, 'add', '.')
  git(main, 'commit', '-q', '-m', 'second')
  const tree = join(root, attack.name, 'tree')
  const marks = join(root, 'marks')
  mkdirSync(marks, { recursive: true })
  const mark = join(marks, attack.name)
  const victim = `${mark}.victim`
  writeFileSync(victim, '')
  git(main, 'remote', 'add', 'origin', 'ssh://127.0.0.1:9/x')
  git(main, 'config', 'extensions.worktreeConfig', 'true')
  git(main, 'config', 'filter.mine.clean', `touch ${mark}; cat`)
  if (attack.workspace === 'submodule') {
    const other = makeRepository(join(root, attack.name, 'other'))
    git(main, '-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'add', other, 'sub')
    git(main, 'commit', '-q', '-m', 'sub')
  }
  if (attack.workspace === 'worktree' || attack.workspace === 'main-of-worktree') {
    git(main, 'worktree', 'add', '-q', tree)
  }
  const path = attack.workspace === 'worktree' ? tree : main
  const folder = attack.workspace === 'main-of-worktree' ? tree : path
  return {
    attack,
    workspace: { source: path, target: path, readOnly: false },
    folder,
    mark,
    victim,
  }
}

function runInside(t: Test, scenes: readonly Scene[], mounts: readonly BindMount[], user: string) {
  const script = scenes.map(({ attack, workspace, mark, victim }) => {
    const body = attack.script.replaceAll(RUN, `touch ${mark}; false`).replaceAll(VICTIM, victim)
    return `( cd ${workspace.target} && { ${body}\n} ) </dev/null\n`
  })
  const env = [
    'HOME=/tmp',
    'GIT_AUTHOR_NAME=A',
    'GIT_AUTHOR_EMAIL=a@a.test',
    'GIT_COMMITTER_NAME=A',
  ]
  env.push('GIT_COMMITTER_EMAIL=a@a.test', 'GIT_CONFIG_COUNT=1', 'GIT_CONFIG_KEY_0=safe.directory')
  env.push('GIT_CONFIG_VALUE_0=*')
  const args = ['run', '-i', '--rm', '--network=none', `--user=${user}`, '--name']
  args.push(`git-metadata-${process.pid}-${Math.random().toString(36).slice(2)}`)
  args.push(
    ...env.flatMap((one) => ['-e', one]),
    ...mounts.map((one) => `--mount=${mountArg(one)}`),
  )
  const ran = spawnSync('docker', [...args, TEST_IMAGE, 'sh', '-s'], {
    input: `${script.join('')}echo done\n`,
    encoding: 'utf8',
    timeout: 60_000,
  })
  t.match(ran.stdout, /done/, `the attacks ran: ${ran.stderr.slice(0, 300)}`)
}

/** Which attacks left a mark, after an operator has worked in every workspace. */
function marked(scenes: readonly Scene[]): string[] {
  return scenes
    .filter(({ attack, folder, mark, victim }) => {
      for (const args of [...USUAL, ...(attack.afterwards ? [attack.afterwards] : [])]) {
        try {
          git(folder, ...args)
        } catch {
          // What an attack broke need not work.
        }
      }
      return existsSync(mark) || readFileSync(victim, 'utf8') !== ''
    })
    .map(({ attack }) => attack.name)
}

function prepare(t: Test, user: string): Scene[] {
  const root = t.testdir()
  rmSync(root, { recursive: true })
  const scenes = ATTACKS.map((attack) => makeScene(root, attack))
  if (user !== '0:0') spawnSync('chown', ['-R', user, root])
  t.equal(statSync(scenes[0]?.folder ?? '').uid, Number(user.split(':')[0]))
  return scenes
}

const names = (scenes: readonly Scene[]) => scenes.map(({ attack }) => attack.name)

for (const user of ['0:0', '1000:1000']) {
  void tap.test(`without the mounts, ${user} makes git on the host run anything`, async (t) => {
    const scenes = prepare(t, user)
    const worktrees = scenes.filter(({ attack }) => attack.workspace === 'worktree')
    const mains = worktrees.map(({ workspace }) => join(workspace.source, '../main/.git'))
    const binds = mains.map((path) => ({ source: path, target: path, readOnly: false }))
    runInside(
      t,
      scenes,
      mergeMounts(
        scenes.map(({ workspace }) => workspace),
        binds,
      ),
      user,
    )
    t.strictSame(marked(scenes), names(scenes))
  })

  void tap.test(`with the mounts, ${user} makes git on the host run nothing`, async (t) => {
    const scenes = prepare(t, user)
    const mounts = scenes.map(({ workspace }) => [workspace, ...gitMounts(workspace).mounts])
    const snapshots = new Map<Scene, GitSnapshot>(
      scenes.map((scene) => [scene, snapshotGit(scene.workspace.source)]),
    )
    runInside(t, scenes, mergeMounts(...mounts), user)
    const movedIn = [...snapshots].filter(([, before]) => {
      const { moved, failed } = putAside(before, 'r1')
      t.strictSame(failed, [])
      return moved.length > 0
    })
    t.strictSame(marked(scenes), [])
    t.strictSame(
      names(movedIn.map(([scene]) => scene)),
      names(scenes.filter(({ attack }) => attack.stoppedBy !== 'mounts')),
      'what the guard had to put aside',
    )
  })
}
