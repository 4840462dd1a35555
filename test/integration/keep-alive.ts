import { readFileSync } from 'node:fs'
import { mock } from 'node:test'
import tap from 'tap'
import { openProxy, until } from '../support/proxy.ts'
import { openUpstream } from '../support/upstream.ts'

/** The timer of a socket's keep-alive, as the kernel numbers it in /proc/net/tcp. */
const KEEP_ALIVE = '02'

/** The timer of the connection between two ports of 127.0.0.1, from the side of the first. */
function timerOf(local: number, remote: number): string | undefined {
  const hex = (port: number) => `0100007F:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const lines = readFileSync('/proc/net/tcp', 'utf8').split('\n')
  const line = lines.find((one) => one.includes(` ${hex(local)} ${hex(remote)} `))
  return line?.trim().split(/\s+/)[5]?.slice(0, 2)
}

void tap.test('a client and an upstream that are silent for long are asked', async (t) => {
  mock.timers.enable({ apis: ['setInterval'] })
  t.teardown(() => mock.timers.reset())
  const upstream = await openUpstream(t)
  const proxied = await openProxy(t, { hosts: { 'allowed.test': upstream.port } })
  const waiting = await proxied.client()
  const client = await proxied.tunnel('allowed.test:443')
  const conversation = await upstream.connection()
  const tunnelled = client.socket.localPort ?? 0
  const dialled = conversation.socket.remotePort ?? 0
  const timers = () => [
    timerOf(proxied.port, waiting.socket.localPort ?? 0),
    timerOf(proxied.port, tunnelled),
    timerOf(dialled, upstream.port),
  ]
  mock.timers.tick(29_000)
  t.strictSame(timers(), ['00', '00', '00'], 'most are over before')
  mock.timers.tick(1_000)
  t.strictSame(timers(), [KEEP_ALIVE, KEEP_ALIVE, KEEP_ALIVE])
})

void tap.test('a connection that may serve more requests is asked from the start', async (t) => {
  const upstream = await openUpstream(t)
  const proxied = await openProxy(t, { hosts: { 'allowed.test': upstream.port } })
  await proxied.client('GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n')
  const conversation = await upstream.connection()
  await conversation.until('GET')
  t.equal(timerOf(conversation.socket.remotePort ?? 0, upstream.port), KEEP_ALIVE)
})

void tap.test('who has ended its side and is gone since does not keep a tunnel open', async (t) => {
  mock.timers.enable({ apis: ['setInterval'] })
  t.teardown(() => mock.timers.reset())
  const upstream = await openUpstream(t)
  const proxied = await openProxy(t, { hosts: { 'allowed.test': upstream.port } })
  for (const [index, side] of ['client', 'upstream', 'nobody'].entries()) {
    const client = await proxied.tunnel('allowed.test:443')
    // Neither TLS nor HTTP: it is carried.
    client.send('\0\0\0\0')
    const connection = await upstream.connection(index)
    await connection.until('\0\0\0\0')
    const [gone, other] = side === 'upstream' ? [connection, client] : [client, connection]
    gone.end()
    await until('the end is passed on', () => other.isEnded)
    if (side !== 'nobody') gone.reset()
  }
  await new Promise((resolve) => setTimeout(resolve, 50))
  t.equal(proxied.proxy.stats().tunnels, 3)
  mock.timers.tick(30_000)
  await until('two are over', () => proxied.proxy.stats().tunnels === 1)
  t.strictSame(
    proxied.of('tunnel_closed').map(({ cause }) => cause),
    ['reset', 'reset'],
  )
})
