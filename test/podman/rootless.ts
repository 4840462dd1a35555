import { once } from 'node:events'
import { chownSync, existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import path from 'node:path'
import tap from 'tap'
import { isHostnameOf, openNamespaceOf } from '../../src/door/container-namespace.ts'
import { TEST_IMAGE, uniqueName } from '../support/docker.ts'
import {
  NO_PODMAN,
  NO_ROOTLESS_PODMAN,
  openPodmanDesk,
  openRootlessPodman,
  podman,
} from '../support/podman.ts'
import {
  checkRootlessDoors,
  checkRootlessOwners,
  checkRootlessPinned,
  ordinaryUser,
} from '../support/users.ts'

// The podman of an ordinary user, who is root in every sandbox of it.

const ROOTLESS = { skip: NO_ROOTLESS_PODMAN }

void tap.test('whatever the image says, files belong to the caller', ROOTLESS, async (t) => {
  const { desk, podman: own } = openRootlessPodman(t)
  await checkRootlessOwners(t, desk, (user) => {
    const name = `${uniqueName('image')}:latest`
    writeFileSync(path.join(desk.folder, 'Dockerfile'), `FROM ${TEST_IMAGE}\nUSER ${user}\n`)
    own(['build', '-q', '-t', name, '-f', `${desk.folder}/Dockerfile`, desk.tempRoot])
    t.teardown(() => own(['rmi', '-f', name]))
    return name
  })
  t.strictSame(desk.leftovers(), [])
  t.equal(own(['ps', '-aq']), '', 'no container stays')
})

void tap.test('in the podman of root files belong to root', { skip: NO_PODMAN }, async (t) => {
  const desk = openPodmanDesk(t)
  const name = `${uniqueName('image')}:latest`
  writeFileSync(path.join(desk.folder, 'Dockerfile'), `FROM ${TEST_IMAGE}\nUSER 1001:1001\n`)
  await podman('build', '-q', '-t', name, '-f', `${desk.folder}/Dockerfile`, desk.tempRoot)
  t.teardown(() => podman('rmi', '-f', name))
  writeFileSync(path.join(desk.workspace, 'policy.yaml'), 'rules: ["allowed.test"]\n')
  const args = ['run', '--image', name, '--policy', 'policy.yaml', '--', 'touch', 'file']
  const { code, stderr } = await desk.run(args)
  t.equal(code, 0, stderr)
  t.match(statSync(path.join(desk.workspace, 'file')), { uid: 0, gid: 0 })
  t.strictSame(desk.eventsOf('sandbox_user_remap'), [{ from: '1001:1001', to: '0:0' }])
})

void tap.test('a pinned user is somebody else, but for root', ROOTLESS, async (t) => {
  await checkRootlessPinned(t, openRootlessPodman(t).desk)
})

void tap.test('the door is that of the namespace, and there is no other', ROOTLESS, async (t) => {
  await checkRootlessDoors(t, openRootlessPodman(t).desk)
})

void tap.test('ids that podman is configured to give do not hold', ROOTLESS, async (t) => {
  const { uid, gid } = ordinaryUser()
  for (const mapping of ['keep-id', 'auto']) {
    const { desk } = openRootlessPodman(t, `userns = "${mapping}"`)
    writeFileSync(path.join(desk.workspace, 'policy.yaml'), 'rules: ["allowed.test"]\n')
    const { stderr } = await desk.runCommand(['--policy', 'policy.yaml'], ['touch', 'file'])
    const file = path.join(desk.workspace, 'file')
    t.match(statSync(file, { throwIfNoEntry: false }), { uid, gid }, `${mapping} ${stderr}`)
  }
})

void tap.test('the state of agents is where their home is', ROOTLESS, async (t) => {
  const { desk } = openRootlessPodman(t)
  const { uid, gid } = ordinaryUser()
  for (const folder of ['.claude', '.claude/projects', '.iterion']) {
    mkdirSync(path.join(desk.home, folder), { recursive: true })
    chownSync(path.join(desk.home, folder), uid, gid)
  }
  writeFileSync(path.join(desk.workspace, 'policy.yaml'), 'rules: ["allowed.test"]\n')
  const script = `echo $HOME; touch ~/.claude/projects/kept ~/new
touch ~/.claude/settings.json 2>/dev/null || echo closed; ls -d ~/.iterion`
  const { stdout, stderr } = await desk.runCommand(
    ['--policy', 'policy.yaml', '--sandbox-host-state', 'auto'],
    ['sh', '-c', script],
  )
  t.equal(stdout, `${desk.home}\nclosed\n${desk.home}/.iterion\n`, stderr)
  t.match(statSync(path.join(desk.home, '.claude/projects/kept')), { uid, gid })
  t.notOk(existsSync(path.join(desk.home, 'new')), 'the home is one of the sandbox alone')
  const ofOthers = readdirSync(desk.home, { recursive: true, encoding: 'utf8' }).filter(
    (name) => statSync(path.join(desk.home, name)).uid !== uid,
  )
  t.strictSame(ofOthers, [], 'nothing in the home is somebody else’s')
})

void tap.test('a service that podman is sent to is refused', ROOTLESS, async (t) => {
  const { desk } = openRootlessPodman(t)
  const { uid, gid } = ordinaryUser()
  const socket = path.join(desk.home, 'podman.sock')
  const server = createServer((connection) => connection.destroy()).listen(socket)
  t.teardown(() => server.close())
  await once(server, 'listening')
  chownSync(socket, uid, gid)
  const { code, stderr } = await desk.run(['run', '--image', TEST_IMAGE, '--', 'touch', 'ran'], {
    env: { CONTAINER_HOST: `unix://${socket}` },
  })
  t.equal(code, 125)
  t.match(stderr, /podman\.sock belongs to UID.*without CONTAINER_HOST.*SANDBOX_ENGINE_UNREACHABLE/)
  t.strictSame(readdirSync(desk.workspace), [])
})

const ID = 'a'.repeat(64)
const OTHER = 'b'.repeat(64)

void tap.test(
  'a process is in the container whose name file the engine laid over it',
  async (t) => {
    const line = (root: string, target = '/etc/hostname') =>
      `118 108 254:0 ${root} ${target} rw,relatime - ext4 /dev/vda rw\n`
    const podmans = line(`/s/overlay-containers/${ID}/userdata/hostname`)
    const rows: [text: string, isIn: boolean][] = [
      [podmans, true],
      [line(`/home/ada/docker/containers/${ID}/hostname`), true],
      [line('/', '/') + podmans, true],
      ['', false],
      [line(`/s/overlay-containers/${OTHER}/userdata/hostname`), false],
      [line(`/s/${ID}/userdata/hostname`, '/etc/hosts'), false],
      [line(`/s/x${ID}/hostname`), false],
      [line(`/s/${ID}/merged/hostname`), false],
      [podmans + line('/etc/hostname'), false],
      [line('/etc/hostname') + podmans, false],
    ]
    for (const [text, isIn] of rows) t.equal(isHostnameOf(text, ID), isIn, text)
    t.notOk(isHostnameOf(line('//hostname'), ''), 'no id is in nothing')
  },
)

void tap.test('a process of another container is not entered', ROOTLESS, async (t) => {
  const { podman: own } = openRootlessPodman(t)
  const start = () => {
    const name = uniqueName('sleeper')
    t.teardown(() => own(['rm', '-f', '--time=0', name]))
    const place = ['--rm', '--network=none', '--name', name]
    const id = own(['run', '-d', ...place, TEST_IMAGE, 'sleep', '300']).trim()
    return { id, pid: Number(own(['inspect', '-f', '{{.State.Pid}}', name])) }
  }
  const [one, two] = [start(), start()]
  openNamespaceOf(one.pid, one.id, true).close()
  const message = /is not in the container/
  for (const [pid, id] of [
    [one.pid, two.id],
    [process.pid, one.id],
  ] as const) {
    t.throws(() => openNamespaceOf(pid, id, true), { code: 'SANDBOX_DOOR_FAILED', message })
  }
})

void tap.test('who kills the program ends the container', ROOTLESS, async (t) => {
  const { desk, podman: own } = openRootlessPodman(t)
  writeFileSync(path.join(desk.workspace, 'policy.yaml'), 'rules: ["allowed.test"]\n')
  const args = ['run', '--image', TEST_IMAGE, '--policy', 'policy.yaml', '--', 'sh', '-c']
  const running = desk.start([...args, 'echo up; sleep 300'])
  await running.hears('up')
  running.child.kill('SIGKILL')
  await running.done
  for (let tries = 0; tries < 50 && own(['ps', '-aq']) !== ''; tries++) {
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  t.equal(own(['ps', '-aq']), '')
  t.match(await desk.run(['reap', '--json']), { code: 0, stdout: /"runs"/ })
  t.match(desk.record(), { failure_code: 'RUN_ORPHANED' })
  t.strictSame(desk.leftovers(), [])
})
