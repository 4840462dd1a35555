import { once } from 'node:events'
import { mkdirSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { performance } from 'node:perf_hooks'
import tap from 'tap'
import type { DoorKind } from '../../src/door/door.ts'
import { placeDoor } from '../../src/door/place-door.ts'
import {
  buildProjectImage,
  docker,
  ECHO_PORT,
  PROJECT_IMAGE,
  RESET_PORT,
  shortFolder,
  startOutside,
  startSleeper,
  uniqueName,
} from '../support/docker.ts'
import {
  helpersOf,
  holdDoor,
  isError,
  NO_DOORS,
  openDoor,
  siteOf,
  untilSo,
} from '../support/door.ts'

const BOTH: readonly Exclude<DoorKind, 'advisory'>[] = ['netns', 'sidecar']

const PROXY = ['-x', 'http://127.0.0.1:3128']
const CURL = ['curl', '-s', '--max-time', '10', ...PROXY, '-w', '%{http_code}/%{http_connect}']

/** Sends so many bytes through a tunnel to the echo, ends, and says what came back. */
const TRANSFER = `
  const net = require('net'), { createHash } = require('crypto')
  const size = Number(process.argv[1])
  const [sent, got] = [createHash('sha256'), createHash('sha256')]
  let count = 0
  const socket = net.connect({ host: '127.0.0.1', port: 3128, allowHalfOpen: true })
  socket.write('CONNECT outside.test:${ECHO_PORT} HTTP/1.1\\r\\nHost: outside.test:${ECHO_PORT}\\r\\n\\r\\n')
  socket.once('data', async (head) => {
    if (!head.toString().startsWith('HTTP/1.1 200')) throw new Error(head.toString())
    socket.on('data', (chunk) => { count += chunk.length; got.update(chunk) })
    socket.on('end', () => {
      console.log(count === size && got.digest('hex') === sent.digest('hex') ? 'whole' : 'broken ' + count)
    })
    const block = Buffer.alloc(65536)
    for (let left = size, n = 0; left > 0; left -= 65536, n++) {
      block.fill(n % 251)
      const part = Buffer.from(block.subarray(0, Math.min(left, 65536)))
      sent.update(part)
      if (!socket.write(part)) await new Promise((resolve) => socket.once('drain', resolve))
    }
    socket.end()
  })
`

/** Opens a tunnel, sends a byte, and says how the connection ends; with `reset`, resets it itself. */
const ENDING = `
  const net = require('net')
  const [port, how] = process.argv.slice(1)
  const socket = net.connect(3128, '127.0.0.1')
  socket.write('CONNECT outside.test:' + port + ' HTTP/1.1\\r\\nHost: outside.test:' + port + '\\r\\n\\r\\n')
  socket.once('data', () => {
    socket.write(Buffer.alloc(8))
    if (how === 'reset') socket.once('data', () => socket.resetAndDestroy())
  })
  let ending = 'end'
  socket.on('data', () => undefined)
  socket.on('error', (error) => { ending = error.code })
  socket.on('close', () => console.log(ending))
`

tap.before(async () => {
  if (NO_DOORS === false) await buildProjectImage()
})

for (const kind of BOTH) {
  void tap.test(
    `${kind}: what is allowed is reached, all else is denied`,
    { skip: NO_DOORS },
    async (t) => {
      const outside = await startOutside(t)
      const { door, events, inside } = await openDoor(t, kind, outside)
      const before = performance.now()
      await door.probe()
      t.comment(`the probe took ${Math.round(performance.now() - before)} ms`)
      t.strictSame(
        events.filter(({ type }) => type !== 'policy_loaded'),
        [],
        'the probe is in no record',
      )
      t.equal(door.kind, kind)
      t.match(await inside(...CURL, 'http://outside.test/'), /^outside 0\n200/)
      t.match(await inside(...CURL, '-k', 'https://outside.test/'), /^outside 0\n200\/200/)
      const denied = await inside(...CURL, 'https://evil.test/').catch(String)
      t.match(denied, /docker exec/, 'curl fails')
      t.match(await inside(...CURL, 'http://evil.test/'), /no rule allows evil\.test:80/)
      const blocked = events.flatMap((event) =>
        event.type === 'network_blocked' ? [`${event.data.host}:${event.data.port}`] : [],
      )
      t.strictSame(blocked, ['evil.test:443', 'evil.test:80'])
      await t.rejects(
        docker('exec', await startSleeper(t), ...CURL, 'http://outside.test/'),
        'another container has no door',
      )
      t.notMatch((await inside('ip', '-o', 'link')).split('\n').slice(1), [/./], 'only lo')
    },
  )

  void tap.test(
    `${kind}: every byte arrives both ways, and ends are ends`,
    { skip: NO_DOORS },
    async (t) => {
      const outside = await startOutside(t)
      const { inside } = await openDoor(t, kind, outside)
      t.equal(await inside('node', '-e', TRANSFER, '0'), 'whole')
      t.equal(await inside('node', '-e', TRANSFER, '30000001'), 'whole')
      const many = Array.from({ length: 8 }, () => inside('node', '-e', TRANSFER, '300000'))
      t.strictSame(new Set(await Promise.all(many)), new Set(['whole']))
    },
  )

  void tap.test(`${kind}: a reset is a reset, from either side`, { skip: NO_DOORS }, async (t) => {
    const outside = await startOutside(t)
    const { inside } = await openDoor(t, kind, outside)
    t.equal(await inside('node', '-e', ENDING, String(RESET_PORT)), 'ECONNRESET')
    const broken = async () => (await outside.log()).filter((line) => line === 'broken ECONNRESET')
    const before = (await broken()).length
    await inside('node', '-e', ENDING, String(ECHO_PORT), 'reset')
    await untilSo(async () => (await broken()).length > before)
    t.equal((await broken()).length, before + 1)
  })

  void tap.test(`${kind}: nothing is left when it is closed`, { skip: NO_DOORS }, async (t) => {
    const outside = await startOutside(t)
    const { container, door, proxy, inside } = await openDoor(t, kind, outside)
    const site = siteOf(t, container)
    await t.rejects(placeDoor(kind, site), { code: 'SANDBOX_DOOR_FAILED', message: /EADDRINUSE/ })
    t.match(await inside(...CURL, 'http://outside.test/'), /^outside/, 'the first door stays')
    t.strictSame(readdirSync(site.directory), [], 'a failed door leaves no socket')
    if (kind === 'netns') await door.probe()
    await proxy.close({ drainTimeoutMs: 0 })
    await door.close()
    await door.close()
    await t.rejects(door.probe(), { code: 'SANDBOX_DOOR_FAILED' })
    await t.rejects(inside(...CURL, 'http://outside.test/'), 'nobody listens')
    t.equal(await docker('ps', '-aq', '--filter', `label=test.door=${container}`), '')
    await untilSo(async () => helpersOf(process.pid).length === 0)
  })

  void tap.test(
    `${kind}: it dies with the process that holds it`,
    { skip: NO_DOORS },
    async (t) => {
      const container = await startSleeper(t)
      const folder = path.join(shortFolder(t), 'door')
      mkdirSync(folder, { mode: 0o700 })
      const child = holdDoor(t, [kind, container, folder, PROJECT_IMAGE])
      const [line] = (await once(child.stdout, 'data')) as [Buffer]
      t.match(JSON.parse(line.toString()), { kind })
      child.kill('SIGKILL')
      const knock = ['exec', container, 'nc', '-z', '127.0.0.1', '3128']
      await untilSo(async () => isError(await docker(...knock).catch((error: unknown) => error)))
      const { containers } = JSON.parse(line.toString()) as { containers: string[] }
      for (const one of containers) {
        await untilSo(async () => (await docker('ps', '-aq', '--filter', `name=${one}`)) === '')
      }
      t.pass('the port is closed, the relay is gone')
    },
  )

  void tap.test(
    `${kind}: a namespace with another way out gets no door`,
    { skip: NO_DOORS },
    async (t) => {
      const network = uniqueName('net')
      await docker('network', 'create', '--internal', network)
      t.teardown(() => docker('network', 'rm', network))
      const container = await startSleeper(t, '--network', network)
      t.teardown(() => docker('rm', '-f', container))
      const placed = placeDoor(kind, siteOf(t, container))
      await t.rejects(placed, { code: 'SANDBOX_DOOR_FAILED', message: /besides lo: eth0/ })
      t.equal(await docker('ps', '-aq', '--filter', `label=test.door=${container}`), '')
    },
  )

  void tap.test(`${kind}: placing can be given up`, { skip: NO_DOORS }, async (t) => {
    const container = await startSleeper(t)
    const controller = new AbortController()
    const site = siteOf(t, container, { signal: controller.signal })
    const placed = placeDoor(kind, site)
    controller.abort()
    await t.rejects(placed, { code: 'SANDBOX_DOOR_FAILED' })
    t.equal(await docker('ps', '-aq', '--filter', `label=test.door=${container}`), '')
    t.strictSame(readdirSync(site.directory), [])
  })

  void tap.test(
    `${kind}: a door that the proxy does not serve is not proven`,
    { skip: NO_DOORS },
    async (t) => {
      const container = await startSleeper(t)
      const door = await placeDoor(kind, siteOf(t, container))
      t.teardown(() => door.close())
      await t.rejects(door.probe(), { code: 'SANDBOX_DOOR_FAILED', message: /nothing answers/ })
    },
  )
}
