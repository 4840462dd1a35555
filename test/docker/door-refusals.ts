import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, existsSync, mkdirSync } from 'node:fs'
import path from 'node:path'
import { performance } from 'node:perf_hooks'
import tap from 'tap'
import { openContainerNamespace, openNamespaceOf } from '../../src/door/container-namespace.ts'
import type { DoorSite } from '../../src/door/door.ts'
import { placeDoor } from '../../src/door/place-door.ts'
import { MAX_RELAYED } from '../../src/door/relay-wire.ts'
import { systemSpawner } from '../../src/door/spawn.ts'
import {
  buildProjectImage,
  docker,
  PROJECT_IMAGE,
  shortFolder,
  startSleeper,
  testRuntime,
  uniqueName,
} from '../support/docker.ts'
import { helpersOf, holdDoor, NO_DOORS, openDoor, siteOf, untilSo } from '../support/door.ts'

/** The test runner's own loader is not for other users. */
const BARE = ['env', '-u', 'NODE_OPTIONS']
/** An ordinary user who may talk to the engine. */
const ORDINARY = ['setpriv', '--reuid', '65534', '--regid', '65534', '--groups', 'docker', ...BARE]
/** Root that may see a namespace and not enter it. */
const CONFINED_ROOT = ['setpriv', '--bounding-set', '-sys_admin', ...BARE]

tap.before(async () => {
  if (NO_DOORS === false) await buildProjectImage()
})

void tap.test(
  'a namespace is opened only for a process of that container',
  { skip: NO_DOORS },
  async (t) => {
    const [one, other] = await Promise.all([startSleeper(t), startSleeper(t)])
    const pidOf = async (id: string) => Number(await docker('inspect', '-f', '{{.State.Pid}}', id))
    const refused = (pid: number, id: string, message: RegExp) =>
      t.throws(() => openNamespaceOf(pid, id), { code: 'SANDBOX_DOOR_FAILED', message })
    openNamespaceOf(await pidOf(one), one).close()
    refused(await pidOf(other), one, /is not in the container/)
    refused(process.pid, one, /is not in the container/)
    refused(0, one, /does not run/)
    refused(4_194_304, one, /cannot be opened/)
    const host = await startSleeper(t, '--network', 'host')
    refused(await pidOf(host), host, /no network namespace of its own/)
    await docker('rm', '-f', other)
    const { signal } = new AbortController()
    const gone = openContainerNamespace(testRuntime(), other, signal)
    await t.rejects(gone, { code: 'SANDBOX_DOOR_FAILED', message: /cannot be inspected/ })
    const created = await docker(
      'create',
      '--network',
      'none',
      '--name',
      uniqueName('c'),
      PROJECT_IMAGE,
    )
    t.teardown(() => docker('rm', created))
    const never = openContainerNamespace(testRuntime(), created, signal)
    await t.rejects(never, { message: /does not run/ })
  },
)

void tap.test('the helper knows nothing of the caller', { skip: NO_DOORS }, async (t) => {
  const container = await startSleeper(t)
  const environments: unknown[] = []
  const runtime = {
    ...testRuntime(),
    spawn: ((program, args, options) => {
      if (program === 'nsenter') environments.push(Object.keys(options.env ?? {}).toSorted())
      return systemSpawner(program, args, options)
    }) as typeof systemSpawner,
  }
  const door = await placeDoor('netns', siteOf(t, container, { runtime }))
  await door.close()
  t.strictSame(environments, [['LC_ALL', 'PATH']])
})

void tap.test(
  'the helper that waits for the probe ends with its parent',
  { skip: NO_DOORS },
  async (t) => {
    const container = await startSleeper(t)
    const child = holdDoor(t, ['netns', container, shortFolder(t), PROJECT_IMAGE, 'unproven'])
    await once(child.stdout, 'data')
    const helpers = helpersOf(child.pid ?? 0)
    t.equal(helpers.length, 1)
    child.kill('SIGKILL')
    await untilSo(async () => helpers.every((pid) => !existsSync(`/proc/${pid}`)))
  },
)

void tap.test('an ordinary user gets a sidecar door', { skip: NO_DOORS }, async (t) => {
  const container = await startSleeper(t)
  const folder = path.join(shortFolder(t), 'door')
  t.equal(spawnSync('chmod', ['711', path.dirname(folder)]).status, 0)
  mkdirSync(folder, { mode: 0o700 })
  chownSync(folder, 65534, 65534)
  const hold = (kind: string) => holdDoor(t, [kind, container, folder, PROJECT_IMAGE], ORDINARY)
  const [refused] = (await once(hold('netns').stdout, 'data')) as [Buffer]
  t.match(JSON.parse(refused.toString()), { code: 'SANDBOX_DOOR_FAILED', message: /EACCES/ })
  const [placed] = (await once(hold('auto').stdout, 'data')) as [Buffer]
  t.match(JSON.parse(placed.toString()), { kind: 'sidecar' })
})

void tap.test('root that may not enter gets a sidecar door', { skip: NO_DOORS }, async (t) => {
  const container = await startSleeper(t)
  const hold = async (kind: string) => {
    const args = [kind, container, shortFolder(t), PROJECT_IMAGE]
    const [line] = (await once(holdDoor(t, args, CONFINED_ROOT).stdout, 'data')) as [Buffer]
    return JSON.parse(line.toString()) as unknown
  }
  t.match(await hold('netns'), { code: 'SANDBOX_DOOR_FAILED', message: /not permitted/ })
  t.match(await hold('auto'), { kind: 'sidecar' })
})

void tap.test('a connection too many is told so by the relay', { skip: NO_DOORS }, async (t) => {
  const { inside } = await openDoor(t, 'sidecar')
  const program = `
    const net = require('net')
    const open = () => new Promise((resolve) => {
      const socket = net.connect(3128, '127.0.0.1', () => resolve(socket))
      socket.on('error', () => undefined)
    })
    const say = async (text) => {
      console.log(text)
      process.exit(0)
    }
    const start = async () => {
      for (let i = 0; i < ${MAX_RELAYED}; i++) await open()
      const last = await open()
      last.on('data', (answer) => say(answer.toString()))
    }
    start()
  `
  t.match(
    await inside('node', '-e', program),
    /^HTTP\/1\.1 503 egress refused: .*\r\nX-Iterion-Reason: limit/,
  )
})

void tap.test(
  'who was refused and does not go takes nobody’s place in the relay',
  { skip: NO_DOORS },
  async (t) => {
    const { inside } = await openDoor(t, 'sidecar')
    const program = `
    const net = require('net')
    const ask = () => new Promise((resolve) => {
      const socket = net.connect({ port: 3128, host: '127.0.0.1', allowHalfOpen: true })
      socket.on('error', () => undefined)
      socket.on('data', (answer) => resolve(answer.toString().slice(0, 12)))
      socket.write('CONNECT evil.test:443 HTTP/1.1\\r\\nHost: evil.test:443\\r\\n\\r\\n')
    })
    const start = async () => {
      const first = []
      for (let i = 0; i < ${MAX_RELAYED}; i++) first.push(await ask())
      let last
      for (let i = 0; i < 50; i++) {
        await new Promise((resolve) => setTimeout(resolve, 200))
        last = await ask()
        if (last === first[0]) break
      }
      console.log(new Set(first).size, first[0], last)
      process.exit(0)
    }
    start()
  `
    t.equal((await inside('node', '-e', program)).trim(), '1 HTTP/1.1 403 HTTP/1.1 403')
  },
)

void tap.test('the relay has no rights', { skip: NO_DOORS }, async (t) => {
  const { door } = await openDoor(t, 'sidecar')
  const [name = ''] = door.containers
  const format =
    '{{.HostConfig.ReadonlyRootfs}} {{.HostConfig.CapDrop}} {{.HostConfig.SecurityOpt}} {{.HostConfig.LogConfig.Type}} {{.Config.User}} {{.HostConfig.AutoRemove}} {{(index .Mounts 0).RW}}'
  t.equal(
    await docker('inspect', '-f', format, name),
    'true [ALL] [no-new-privileges] none 0:0 true false',
  )
})

void tap.test('why a sidecar does not come up is told', { skip: NO_DOORS }, async (t) => {
  const container = await startSleeper(t)
  const rejects = (more: Partial<DoorSite>, message: RegExp) =>
    t.rejects(placeDoor('sidecar', siteOf(t, container, more)), {
      code: 'SANDBOX_DOOR_FAILED',
      message,
    })
  await rejects({ sidecarImage: 'no-such-image:1' }, /docker build -t no-such-image:1 \./)
  await rejects({ sidecarImage: 'iterion-egress-test:latest' }, /it has no relay/)
  const shared = shortFolder(t)
  spawnSync('chmod', ['755', shared])
  await rejects({ directory: shared }, /not a folder of the caller alone/)
  const long = path.join(shortFolder(t), 'x'.repeat(100))
  mkdirSync(long, { mode: 0o700 })
  await rejects({ directory: long }, /too long for a socket/)
  // An engine elsewhere sees no such folder, or one without the socket.
  const directories = [shortFolder(t), shortFolder(t)]
  const elsewhere = path.join(shortFolder(t), 'empty')
  mkdirSync(elsewhere, { mode: 0o700 })
  for (const [i, seen] of ['/no/such/folder', elsewhere].entries()) {
    const directory = directories[i] ?? ''
    const runtime = {
      ...testRuntime(),
      spawn: ((program, args, options) =>
        systemSpawner(
          program,
          args.map((arg) => arg.replace(`source=${directory}`, `source=${seen}`)),
          options,
        )) as typeof systemSpawner,
    }
    await rejects({ directory, runtime }, /a remote engine cannot bind-mount/)
  }
})

void tap.test('the image ends at once when it is asked to', { skip: NO_DOORS }, async (t) => {
  const name = uniqueName('proxy')
  t.teardown(() => docker('rm', '-f', name))
  await docker(
    'run',
    '-d',
    '--network',
    'none',
    '--name',
    name,
    PROJECT_IMAGE,
    'serve',
    '--preset',
    'none',
  )
  await untilSo(async () => (await docker('logs', name)).includes('listens on'))
  const before = performance.now()
  await docker('stop', '-t', '10', name)
  t.comment(`it took ${Math.round(performance.now() - before)} ms`)
  t.equal(await docker('inspect', '-f', '{{.State.ExitCode}}', name), '0', 'T-10')
})
