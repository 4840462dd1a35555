import { once } from 'node:events'
import { chownSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import path from 'node:path'
import tap from 'tap'
import { docker, TEST_IMAGE, uniqueName } from '../support/docker.ts'
import {
  checkRootlessDoors,
  checkRootlessOwners,
  checkRootlessPinned,
  NO_ROOTLESS,
  NO_USERS,
  openNumberDesk,
  openUserDesk,
  ordinaryUser,
  startRootlessDocker,
} from '../support/users.ts'

// Whose the files are that a sandbox writes: by the numbers of the caller, and by whose engine it is.

/** Callers by number. Nobody here has an account with the second, as on a machine whose users come from elsewhere. */
const CALLERS = [
  { uid: 1000, gid: 1000 },
  { uid: 501, gid: 20 },
]

void tap.test(
  'files belong to the caller, with an account or without',
  { skip: NO_USERS },
  async (t) => {
    const image = `${uniqueName('image')}:latest`
    const folder = t.testdir({ Dockerfile: `FROM ${TEST_IMAGE}\nUSER 1001:1001\n` })
    await docker('build', '-q', '-t', image, folder)
    t.teardown(() => docker('rmi', '-f', image))
    for (const { uid, gid } of CALLERS) {
      const desk = openNumberDesk(t, { uid, gid })
      const script = 'mkdir folder; echo x > folder/file; id -u; whoami; touch ~/x && echo home'
      const { stdout, stderr } = await desk.run(['run', '--image', image, '--', 'sh', '-c', script])
      t.match(stdout, new RegExp(`^${uid}\n[a-z_][a-z0-9_-]*\nhome\n$`), `${uid} ${stderr}`)
      for (const name of ['folder', 'folder/file']) {
        t.match(statSync(path.join(desk.workspace, name)), { uid, gid }, `${name} of ${uid}`)
      }
      t.strictSame(desk.eventsOf('sandbox_user_remap'), [
        { from: '1001:1001', to: `${uid}:${gid}` },
      ])
      t.strictSame(desk.eventsOf('sandbox_uid_mismatch_warning'), [])
      t.strictSame(desk.leftovers(), [])
    }
  },
)

void tap.test('a pinned name without a number is warned about', { skip: NO_USERS }, async (t) => {
  for (const { uid, gid } of CALLERS) {
    const desk = openNumberDesk(t, { uid, gid })
    writeFileSync(
      path.join(desk.workspace, 'workflow.yaml'),
      `name: pinned
sandbox: { image: "${TEST_IMAGE}", user: www-data }
nodes: [{ id: n, command: 'id -u; touch file || true' }]
`,
    )
    const { stdout, stderr } = await desk.run(['run', 'workflow.yaml'])
    t.equal(stdout, '33\n', stderr)
    t.match(stderr, /warning: user www-data: .*depends on the image/)
    t.match(desk.eventsOf('sandbox_uid_mismatch_warning'), [
      { user: 'www-data', caller: `${uid}:${gid}`, message: /depends on the image/ },
    ])
    t.strictSame(readdirSync(desk.workspace), ['workflow.yaml'])
  }
})

void tap.test(
  'in a docker of the caller’s own root is the caller',
  { skip: NO_ROOTLESS },
  async (t) => {
    const rootless = await startRootlessDocker(t)
    const own = { DOCKER_HOST: rootless.address }
    await t.test('whatever the image says, files belong to the caller', async (part) => {
      const desk = openUserDesk(part, own)
      await checkRootlessOwners(part, desk, (user) => {
        const name = `${uniqueName('image')}:latest`
        rootless.docker(['build', '-q', '-t', name, '-'], `FROM ${TEST_IMAGE}\nUSER ${user}\n`)
        return name
      })
      part.strictSame(desk.leftovers(), [])
      part.equal(rootless.docker(['ps', '-aq']), '', 'no container stays')
    })
    await t.test('a pinned user is somebody else, but for root', async (part) => {
      await checkRootlessPinned(part, openUserDesk(part, own))
    })
    await t.test('the door is that of the namespace, and there is no other', async (part) => {
      await checkRootlessDoors(part, openUserDesk(part, own))
    })
    await t.test('it is found by the context of docker as well', async (part) => {
      const desk = openUserDesk(part)
      const { uid, gid } = ordinaryUser()
      const meta = path.join(desk.home, '.docker/contexts/meta/some-digest')
      mkdirSync(meta, { recursive: true })
      const context = { Name: 'rootless', Endpoints: { docker: { Host: rootless.address } } }
      writeFileSync(path.join(meta, 'meta.json'), JSON.stringify(context))
      const config = { currentContext: 'rootless' }
      writeFileSync(path.join(desk.home, '.docker/config.json'), JSON.stringify(config))
      const inside = await desk.runCommand([], ['sh', '-c', 'id -u; touch file'])
      part.match(inside, { code: 0, stdout: '0\n' }, inside.stderr)
      part.match(statSync(path.join(desk.workspace, 'file')), { uid, gid })
      const env = { DOCKER_CONTEXT: 'default' }
      const other = await desk.run(['run', '--image', TEST_IMAGE, '--', 'id', '-u'], { env })
      part.match(other, { code: 0, stdout: `${uid}\n` }, other.stderr)
    })
    await t.test('another user’s engine is refused', async (part) => {
      const desk = openNumberDesk(part, { uid: 501, gid: 20 })
      const { code, stderr } = await desk.run(
        ['run', '--image', TEST_IMAGE, '--', 'touch', 'ran'],
        {
          env: own,
        },
      )
      part.equal(code, 125, stderr)
      part.match(stderr, /SANDBOX_ENGINE_UNREACHABLE/)
      part.strictSame(readdirSync(desk.workspace), [])
    })
  },
)

void tap.test(
  'a socket of root’s engine that somebody passes on is refused',
  { skip: NO_USERS },
  async (t) => {
    const desk = openUserDesk(t)
    const { uid, gid } = ordinaryUser()
    const socket = path.join(desk.home, 'docker.sock')
    const server = createServer((near) => {
      const far = connect('/var/run/docker.sock')
      for (const one of [near, far]) one.on('error', () => undefined)
      near.pipe(far).pipe(near)
    }).listen(socket)
    t.teardown(() => server.close())
    await once(server, 'listening')
    const args = ['run', '--image', TEST_IMAGE, '--', 'touch', 'ran']
    for (const owner of [uid, 501]) {
      chownSync(socket, owner, gid)
      const { code, stderr } = await desk.run(args, { env: { DOCKER_HOST: `unix://${socket}` } })
      t.equal(code, 125, stderr)
      t.match(
        stderr,
        new RegExp(`docker.sock belongs to UID ${owner},.*SANDBOX_ENGINE_UNREACHABLE`),
      )
    }
    // A docker.pid of root's engine beside it is no proof.
    writeFileSync(path.join(desk.home, 'docker.pid'), String(process.pid))
    chownSync(socket, uid, gid)
    const planted = await desk.run(args, { env: { DOCKER_HOST: `unix://${socket}` } })
    t.match(planted, { code: 125, stderr: /SANDBOX_ENGINE_UNREACHABLE/ })
    t.strictSame(readdirSync(desk.workspace), [])
  },
)
