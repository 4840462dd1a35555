import { chownSync, existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import tap, { type Test } from 'tap'
import {
  buildProjectImage,
  docker,
  PROJECT_IMAGE,
  TEST_IMAGE,
  uniqueName,
} from '../support/docker.ts'
import type { Desk } from '../support/sandbox-run.ts'
import { NO_USERS, openUserDesk, ordinaryUser } from '../support/users.ts'

// The caller is an ordinary user in the docker group.

/** Makes an image of the test's own. */
async function buildImage(t: Test, desk: Desk, lines: string): Promise<string> {
  const name = `${uniqueName('image')}:latest`
  writeFileSync(path.join(desk.folder, 'Dockerfile'), `FROM ${TEST_IMAGE}\n${lines}`)
  await docker('build', '-q', '-t', name, '-f', `${desk.folder}/Dockerfile`, desk.tempRoot)
  t.teardown(() => docker('rmi', '-f', name))
  return name
}

function write(desk: Desk, name: string, text: string): void {
  const file = path.join(desk.workspace, name)
  writeFileSync(file, text)
  const { uid, gid } = ordinaryUser()
  chownSync(file, uid, gid)
}

void tap.test(
  'whatever the image says, files belong to the caller',
  { skip: NO_USERS },
  async (t) => {
    const desk = openUserDesk(t)
    const { uid, gid } = ordinaryUser()
    const named = 'RUN useradd --uid 4242 worker\nUSER worker\n'
    for (const [what, lines, remapped] of [
      ['no user', '', ''],
      ['root', 'USER root\n', 'root'],
      ['another number', 'USER 4711:4711\n', '4711:4711'],
      ['a name', named, 'worker'],
      ['the caller already', `USER ${uid}:${gid}\n`, undefined],
    ] as const) {
      const image = await buildImage(t, desk, lines)
      const script = `echo x > "${what}"; stat -c %u:%g "${what}"; id -u; touch ~/x && echo home`
      const { stdout, stderr } = await desk.run(['run', '--image', image, '--', 'sh', '-c', script])
      t.equal(stdout, `${uid}:${gid}\n${uid}\nhome\n`, `${what} ${stderr}`)
      t.match(statSync(path.join(desk.workspace, what)), { uid, gid }, what)
      const remap = { from: remapped, to: `${uid}:${gid}` }
      t.strictSame(desk.eventsOf('sandbox_user_remap'), remapped === undefined ? [] : [remap], what)
      t.strictSame(desk.eventsOf('sandbox_uid_mismatch_warning'), [], what)
    }
  },
)

void tap.test(
  'a pinned user runs, and it is told that files are not the caller’s',
  { skip: NO_USERS },
  async (t) => {
    const desk = openUserDesk(t)
    const { uid, gid } = ordinaryUser()
    const image = await buildImage(t, desk, 'RUN useradd --uid 4242 worker\n')
    for (const [user, expected, isMismatch] of [
      ['4711:4712', '4711:4712', true],
      ['4711', '4711:0', true],
      ['worker', '4242:4242', true],
      [`${uid}:${gid}`, `${uid}:${gid}`, false],
    ] as const) {
      write(
        desk,
        'workflow.yaml',
        `name: pinned
sandbox: { image: "${image}", user: "${user}" }
secrets: [{ name: TOKEN, as: file, from: { env: TOKEN } }]
nodes: [{ id: n, command: 'echo "$(id -u):$(id -g)"; cat $TOKEN_FILE' }]
`,
      )
      const { stdout, stderr } = await desk.run(['run', 'workflow.yaml'], {
        env: { TOKEN: 'value' },
      })
      t.equal(stdout, `${expected}\nvalue`, `${user} ${stderr}`)
      const events = desk.eventsOf('sandbox_uid_mismatch_warning')
      t.match(events, isMismatch ? [{ user, caller: `${uid}:${gid}` }] : [], user)
      t.strictSame(desk.eventsOf('sandbox_user_remap'), [])
    }
  },
)

void tap.test(
  'the caller has a name, a home, and the workspace below it',
  { skip: NO_USERS },
  async (t) => {
    const desk = openUserDesk(t)
    const { uid, gid, name } = ordinaryUser()
    const workspace = path.join(desk.home, 'src/project')
    mkdirSync(workspace, { recursive: true })
    for (const folder of [path.join(desk.home, 'src'), workspace]) chownSync(folder, uid, gid)
    const script = `whoami; pwd; echo $HOME
python3 -c 'import pwd, os; print(pwd.getpwuid(os.getuid()).pw_dir)'
git init -q . && git -c user.name=a -c user.email=a@b.test commit -q --allow-empty -m first && git log --format=%s
touch ~/new ~/src/new`
    const { code, stdout, stderr } = await desk.run([
      'run',
      '--image',
      TEST_IMAGE,
      '--workspace',
      workspace,
      '--',
      'sh',
      '-ec',
      script,
    ])
    t.equal(code, 0, stderr)
    t.equal(stdout, `${name}\n${workspace}\n${desk.home}\n${desk.home}\nfirst\n`)
    t.equal(statSync(path.join(workspace, '.git/HEAD')).uid, uid)
    t.notOk(existsSync(path.join(desk.home, 'new')), 'the home is one of the sandbox alone')
    const runs = path.join(desk.iterionHome, 'runs')
    t.match(statSync(runs), { uid, gid })
    t.equal(statSync(runs).mode & 0o777, 0o700)
    const { id } = desk.record()
    for (const file of readdirSync(path.join(runs, id))) {
      t.match(statSync(path.join(runs, id, file)), { uid }, file)
      t.equal(statSync(path.join(runs, id, file)).mode & 0o077, 0, file)
    }
  },
)

void tap.test('the door of an ordinary user is the sidecar', { skip: NO_USERS }, async (t) => {
  const desk = openUserDesk(t)
  const image = await buildProjectImage()
  write(desk, 'policy.yaml', 'rules: ["allowed.test"]\n')
  const run = (...options: string[]) =>
    desk.run(
      [
        'run',
        '--image',
        TEST_IMAGE,
        '--policy',
        'policy.yaml',
        ...options,
        '--',
        'curl',
        '-s',
      ].concat(['-o', '/dev/null', '-w', '%{http_connect}', 'https://denied.test/']),
    )
  t.match(await run('--sidecar-image', image), { stdout: '403' })
  t.match(desk.eventsOf('sandbox_network_sealed'), [{ door: 'sidecar' }])
  const netns = await run('--door', 'netns')
  t.equal(netns.code, 125)
  t.match(netns.stderr, /SANDBOX_DOOR_FAILED.*(?:permi|EACCES|EPERM)/i)
  const missing = await run('--sidecar-image', 'iterion-egress:none')
  t.equal(missing.code, 125)
  t.match(missing.stderr, /SANDBOX_DOOR_FAILED.*iterion-egress:none.*docker build/)
  t.strictSame(desk.leftovers(), [])
  t.equal(image, PROJECT_IMAGE)
})

void tap.test(
  'host state is what is said, and the run store is not for the sandbox',
  { skip: NO_USERS },
  async (t) => {
    const desk = openUserDesk(t)
    const { uid, gid } = ordinaryUser()
    for (const folder of ['.claude', '.claude/projects', '.iterion']) {
      mkdirSync(path.join(desk.home, folder), { recursive: true })
      chownSync(path.join(desk.home, folder), uid, gid)
    }
    const args = ['run', '--image', TEST_IMAGE, '--sandbox-host-state', 'auto', '--', 'sh', '-c']
    const script = `echo x > ~/.claude/projects/p && echo kept
ls -d ~/.iterion/runs >/dev/null && echo runs; echo x > ~/.iterion/runs/x || echo closed; echo x > ~/.claude/settings.json || echo closed`
    const { stdout, stderr } = await desk.run([...args, script])
    t.equal(stdout, 'kept\nruns\nclosed\nclosed\n', stderr)
    const [mounted] = desk.eventsOf('sandbox_host_state_mounted')
    const mounts = mounted?.mounts ?? []
    for (const [name, readOnly] of [
      ['.iterion/runs', true],
      ['.claude/projects', false],
    ] as const) {
      const target = path.join(desk.home, name)
      t.match(
        mounts.find((mount) => mount.target === target),
        { source: target, target, read_only: readOnly },
        name,
      )
    }
    const inside = await desk.run([
      ...args,
      "sed 's/ - .*//' /proc/self/mountinfo | cut -d' ' -f5,6",
    ])
    for (const { target, read_only } of desk.eventsOf('sandbox_host_state_mounted')[0]?.mounts ??
      []) {
      t.ok(inside.stdout.includes(`${target} ${read_only ? 'ro' : 'rw'}`), target)
    }
    t.ok(existsSync(path.join(desk.home, '.claude/projects/p')))
    const guarded = await desk.run([...args, 'test ! -e ~/.claude && test ! -e ~/.iterion'], {
      env: { ITERION_SANDBOX_HOST_STATE_GUARD: 'none' },
    })
    t.match(guarded, { code: 0 })
    t.strictSame(desk.eventsOf('sandbox_host_state_mounted'), [])
    t.match(desk.eventsOf('sandbox_floor_applied'), [{ floor: /HOST_STATE_GUARD/ }])
  },
)
