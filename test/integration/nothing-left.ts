import tap from 'tap'
import { hello } from '../support/client-hello.ts'
import { openProxy, pause, policyWith, until } from '../support/proxy.ts'
import { seeded, seedOf } from '../support/random.ts'
import { OK, openUpstream } from '../support/upstream.ts'

// The property: whatever clients and upstreams do, in whatever order, when all clients have left nothing is left of them.

const HOST = 'Host: allowed.test\r\n'
const GET = `GET http://allowed.test/ HTTP/1.1\r\n${HOST}\r\n`
const INSIDE = `GET / HTTP/1.1\r\n${HOST}\r\n`
const CONNECT = `CONNECT allowed.test:443 HTTP/1.1\r\n${HOST}\r\n`
const UPGRADE = GET.replace(/\r\n$/, 'Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
const SWITCH = 'HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n'

const CLIENT_BYTES: readonly (string | Buffer)[] = [
  GET,
  GET + GET,
  GET.replace('GET', 'HEAD'),
  `POST http://allowed.test/ HTTP/1.1\r\n${HOST}Content-Length: 10\r\n\r\nhalf`,
  `POST http://allowed.test/ HTTP/1.1\r\n${HOST}Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n`,
  '0\r\n\r\n',
  UPGRADE,
  CONNECT,
  CONNECT + INSIDE,
  Buffer.concat([Buffer.from(CONNECT), hello('allowed.test')]),
  Buffer.concat([Buffer.from(CONNECT), hello('evil.test')]),
  hello('allowed.test').subarray(0, 60),
  INSIDE,
  '\0\x01\x02',
  'x'.repeat(50_000),
  CONNECT.replace('allowed', 'evil'),
  'GET / HT',
]

const UPSTREAM_BYTES: readonly string[] = [
  OK,
  OK + OK,
  SWITCH,
  'HTTP/1.1 100 Continue\r\n\r\n',
  'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n',
  '0\r\n\r\n',
  'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf',
  'HTTP/1.1 200 OK\r\n\r\nuntil the end',
  'nonsense',
  'x'.repeat(50_000),
]

void tap.test('when all have left, nothing is left of them', async (t) => {
  const seed = seedOf(31)
  const random = seeded(seed)
  const crashes: string[] = []
  const onCrash = (error: Error) => crashes.push(String(error.stack))
  const upstream = await openUpstream(t, (connection) => {
    const act = () => {
      if (connection.isClosed) return
      const what = random.below(20)
      if (what === 0) connection.reset()
      else if (what === 1) connection.end()
      else if (what === 2) connection.socket.pause()
      else if (what === 3) connection.socket.resume()
      else if (!connection.socket.writableEnded) connection.send(random.pick(UPSTREAM_BYTES))
    }
    if (random.chance(10)) act()
    connection.socket.on('data', () => {
      for (let n = random.below(3); n > 0; n--) {
        if (random.chance(60)) act()
        else setTimeout(act, random.below(12))
      }
    })
  })
  const proxy = await openProxy(t, {
    hosts: {
      'allowed.test': async () => {
        if (random.chance(30)) await pause(random.below(8))
        return random.chance(5) ? [] : [{ address: '127.0.0.1', port: upstream.port, given: true }]
      },
    },
    limits: {
      headTimeoutMs: 60,
      firstFlightTimeoutMs: 40,
      responseIdleMs: 80,
      tunnelIdleMs: 100,
      maxTunnels: 30,
    },
  })
  process.on('uncaughtExceptionMonitor', onCrash)
  t.teardown(() => process.removeListener('uncaughtExceptionMonitor', onCrash))
  const one = async () => {
    const client = await proxy.client()
    for (let steps = 1 + random.below(4); steps > 0 && !client.isClosed; steps--) {
      const what = random.below(12)
      if (what === 0) client.end()
      else if (what === 1) client.socket.pause()
      else if (what === 2) client.socket.resume()
      else if (!client.socket.writableEnded) {
        const bytes = Buffer.from(random.pick(CLIENT_BYTES) as string, 'latin1')
        const cut = random.chance(30) ? random.below(bytes.length) : bytes.length
        client.send(bytes.subarray(0, cut))
        if (cut < bytes.length && random.chance(70)) client.send(bytes.subarray(cut))
      }
      await pause(random.below(10))
    }
    if (random.chance(50)) client.reset()
    else client.socket.destroy()
  }
  for (let round = 0; round < 12; round++) {
    await Promise.all(Array.from({ length: 30 }, one))
    if (round % 4 === 3) proxy.proxy.setPolicy(policyWith({}))
  }
  await until('no client is left', () => proxy.proxy.stats().connections === 0, 8_000)
  await until('no tunnel is left', () => proxy.proxy.stats().tunnels === 0, 8_000)
  await until('no look-up is left', () => proxy.proxy.stats().lookups === 0)
  await proxy.proxy.close({ drainTimeoutMs: 0 })
  for (const { socket } of upstream.connections) socket.resume()
  await until('no upstream is left', () => upstream.open === 0, 8_000)
  t.strictSame(crashes, [], `seed ${seed}`)
  t.strictSame(proxy.of('internal_error'), [], `seed ${seed}`)
  t.ok(proxy.proxy.stats().allowed > 10, `${proxy.proxy.stats().allowed} were let through`)
})
