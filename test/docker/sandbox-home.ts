import { spawnSync } from 'node:child_process'
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import tap, { type Test } from 'tap'
import { accountFiles, homeMounts, sandboxHome } from '../../src/sandbox/account.ts'
import type { TmpfsMount } from '../../src/sandbox/driver.ts'
import { hostState } from '../../src/sandbox/host-state.ts'
import { type BindMount, mergeMounts, mountArg } from '../../src/sandbox/mounts.ts'
import { TEST_IMAGE } from '../support/docker.ts'

// The home of a sandbox on the real engine: who one is there, what is writable, and what lies over what.

const MEBIBYTE = 1024 * 1024

function scratchFolder(t: Test): string {
  const root = mkdtempSync(join(tmpdir(), 'sandbox-home-'))
  t.teardown(() => rmSync(root, { recursive: true, force: true }))
  return root
}

/** What a script prints in a container; its complaints come with it. */
function inside(
  t: Test,
  script: string,
  options: {
    readonly user: string
    readonly mounts: readonly BindMount[]
    readonly tmpfs?: readonly TmpfsMount[]
    readonly home?: string
  },
): string {
  const { user, mounts, tmpfs = [], home = '/' } = options
  const args = ['run', '--rm', '--network=none', `--user=${user}`, '-e', `HOME=${home}`]
  args.push(`--name=sandbox-home-${process.pid}-${Math.random().toString(36).slice(2)}`)
  for (const { target, mode, owner, sizeBytes } of tmpfs) {
    const ids = owner ? `,uid=${owner.uid},gid=${owner.gid}` : ''
    args.push(`--tmpfs=${target}:rw,nosuid,nodev,exec,mode=${mode}${ids},size=${sizeBytes}`)
  }
  args.push(...mounts.map((mount) => `--mount=${mountArg(mount)}`))
  const ran = spawnSync('docker', [...args, TEST_IMAGE, 'sh', '-c', `exec 2>&1; ${script}`], {
    encoding: 'utf8',
    timeout: 30_000,
  })
  t.equal(ran.status, 0, `${script}: ${ran.stdout}${ran.stderr}`)
  return ran.stdout
}

void tap.test('a caller has a name, and a home to write to with the workspace in it', async (t) => {
  const root = scratchFolder(t)
  const home = join(root, 'ada')
  const workspace = join(home, 'src/project')
  mkdirSync(workspace, { recursive: true })
  mkdirSync(join(home, '.ssh'))
  writeFileSync(join(workspace, 'file'), 'of the host')
  for (const path of [home, join(home, 'src'), workspace]) chownSync(path, 1000, 1001)
  const account = { uid: 1000, gid: 1001, name: 'Ada', home }
  const files = accountFiles(account)
  writeFileSync(join(root, 'passwd'), files.passwd)
  writeFileSync(join(root, 'group'), files.group)
  const mounts = mergeMounts([
    { source: workspace, target: workspace, readOnly: false },
    { source: join(root, 'passwd'), target: '/etc/passwd', readOnly: true },
    { source: join(root, 'group'), target: '/etc/group', readOnly: true },
  ])
  const tmpfs = homeMounts(
    account,
    mounts.map(({ target }) => target),
    MEBIBYTE,
  )
  const run = (script: string) => inside(t, script, { user: '1000:1001', mounts, tmpfs, home })
  t.equal(run('id; whoami'), 'uid=1000(ada) gid=1001(ada) groups=1001(ada)\nada\n')
  t.equal(
    run(`python3 -c 'import pwd, os; print(pwd.getpwuid(os.getuid()))'`),
    `pwd.struct_passwd(pw_name='ada', pw_passwd='x', pw_uid=1000, pw_gid=1001, pw_gecos='ada', pw_dir='${home}', pw_shell='/bin/sh')\n`,
  )
  t.equal(
    run('stat -c "%u:%g %a" ~; ls -A ~ ~/src'),
    `1000:1001 700\n${home}:\nsrc\n\n${home}/src:\nproject\n`,
  )
  t.equal(
    run('cd ~/src && mkdir other && cp /bin/true ~/prog && ~/prog && cat project/file'),
    'of the host',
  )
  t.notOk(existsSync(join(home, 'prog')), 'what is written to the home stays inside')
  run('echo from inside > ~/src/project/new')
  t.equal(statSync(join(workspace, 'new')).uid, 1000)
  t.match(run('echo x >> /etc/passwd || true'), /(?:Permission denied|Read-only)/)
})

void tap.test('without an account file the caller is nobody', async (t) => {
  t.match(inside(t, 'whoami || true', { user: '1000:1001', mounts: [] }), /cannot find name/)
})

void tap.test('a home that would hide programs is elsewhere', async (t) => {
  const account = { uid: 2, gid: 2, name: 'bin', home: '/bin' }
  const tmpfs = homeMounts(account, [], MEBIBYTE)
  const home = sandboxHome(account.home)
  t.equal(inside(t, 'touch ~/x && ls ~', { user: '2:2', mounts: [], tmpfs, home }), 'x\n')
})

void tap.test(
  'host state is read-only but for what is kept; scratch does not come back',
  async (t) => {
    const root = scratchFolder(t)
    const home = join(root, 'ada')
    const folders = [
      '.claude/projects',
      '.claude/hooks',
      '.claude/shell-snapshots',
      '.iterion/runs',
      'w',
    ]
    for (const name of folders) mkdirSync(join(home, name), { recursive: true })
    for (const name of ['settings.json', '.credentials.json']) {
      writeFileSync(join(home, '.claude', name), 'old')
    }
    spawnSync('chown', ['-R', '1000:1000', home])
    const workspace = { source: join(home, 'w'), target: join(home, 'w'), readOnly: false }
    const owner = { uid: 1000, gid: 1000 }
    const iterionHome = join(home, '.iterion')
    const state = hostState({ home, iterionHome, workspace, owner, scratchBytes: MEBIBYTE })
    const mounts = mergeMounts([workspace], state.mounts)
    const account = { ...owner, name: 'ada', home }
    const tmpfs = [
      ...homeMounts(
        account,
        mounts.map(({ target }) => target),
        MEBIBYTE,
      ),
      ...state.scratch,
    ]
    // The folders that were made belong to whoever started this test.
    for (const path of state.made) chownSync(path, 1000, 1000)
    for (const user of ['1000:1000', '0:0']) {
      const script = `cd ~; for f in .claude/settings.json .claude/settings.local.json .claude/hooks/h .claude/new \
.claude/CLAUDE.md .iterion/config.yaml .iterion/runs/r .iterion/hooks; do echo evil > $f && echo "wrote $f"; done; \
for f in .claude/projects/p .claude/todos/t .claude/.credentials.json .claude/shell-snapshots/s w/f; do \
echo new > $f || echo "not $f"; done; mv .claude .c; rm -rf .claude/hooks`
      const said = inside(t, `${script}; true`, { user, mounts, tmpfs, home })
      t.notMatch(said, /^(?:wrote|not) /m, user)
      t.ok(existsSync(join(home, '.claude/hooks')), user)
      t.notOk(existsSync(join(home, '.claude/new')), user)
      t.notOk(existsSync(join(home, '.claude/settings.local.json')), user)
      t.notOk(existsSync(join(home, '.claude/shell-snapshots/s')), user)
      for (const name of ['.claude/projects/p', '.claude/todos/t', 'w/f']) {
        t.ok(existsSync(join(home, name)), `${user} ${name}`)
        rmSync(join(home, name))
      }
    }
  },
)

void tap.test('a path is bound as it is named', async (t) => {
  const root = scratchFolder(t)
  const names = [
    'a,b',
    'a"b',
    'a""b,',
    'a b',
    ' a ',
    'a=b',
    'a,readonly',
    "a'b",
    'a\\b',
    '$HOME',
    '#a',
  ]
  names.push('é', 'a:b', 'a;b', '-a', 'source=x,target=y')
  const mounts = names.map((name, index) => {
    mkdirSync(join(root, name))
    writeFileSync(join(root, name, 'name'), name)
    return { source: join(root, name), target: `/m/${index} ${name}`, readOnly: index % 2 === 0 }
  })
  const said = inside(
    t,
    'cd /m; for d in *; do cat "$d/name"; touch "$d/w" 2>/dev/null && echo " rw" || echo " ro"; done',
    { user: '0:0', mounts },
  )
  t.strictSame(
    said.split('\n').filter(Boolean).toSorted(),
    names.map((name, index) => `${name} ${index % 2 === 0 ? 'ro' : 'rw'}`).toSorted(),
  )
})
