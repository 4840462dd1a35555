import { createSocket, type Socket as DatagramSocket } from 'node:dgram'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server } from 'node:net'
import tap, { type Test } from 'tap'
import type { DoorUse } from '../../src/door/door.ts'
import { planDoor } from '../../src/door/door-plan.ts'
import { serveDoor, steady } from '../../src/door/serve-door.ts'
import { SyntheticNames } from '../../src/door/synthetic-names.ts'
import { queryOf } from '../support/dns.ts'
import { policyOf } from '../support/policy-of.ts'
import { openProxy } from '../support/proxy.ts'
import { rawClientOf } from '../support/raw-client.ts'
import { openUpstream } from '../support/upstream.ts'

const POLICY = policyOf(['allowed.test', { host: 'wide.test', ports: ['*'] }])

async function listening(t: Test): Promise<Server> {
  const server = createServer()
  server.listen(0, '0.0.0.0')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return server
}

/** A door whose sockets are on this machine's loopback, which is where addresses for names are too. */
async function open(t: Test) {
  const upstream = await openUpstream(t, (connection) => {
    connection.send('hello ')
    connection.end()
  })
  const names = new SyntheticNames(POLICY.door.syntheticRange, Date.now)
  const proxied = await openProxy(t, { policy: POLICY, hosts: { 'allowed.test': upstream }, names })
  const uses: readonly DoorUse[] = ['proxy', 'names', 'framed', 'any', 443]
  const servers = await Promise.all(uses.map(async (use) => ({ server: await listening(t), use })))
  const datagrams = createSocket('udp4')
  datagrams.bind(0, '127.0.0.1')
  await once(datagrams, 'listening')
  t.teardown(() => datagrams.close())
  const door = { servers, datagrams, taken: [], missing: undefined }
  serveDoor(door, proxied.proxy, { plan: planDoor(POLICY), names, now: Date.now, hostname: 'box' })
  const reach = (use: DoorUse, host: string) => {
    const found = servers.find((one) => one.use === use)
    if (found === undefined) throw new Error(`no server for ${use}`)
    const { port } = found.server.address() as AddressInfo
    const socket = connect({ host, port })
    t.teardown(() => socket.destroy())
    return rawClientOf(socket)
  }
  return { proxied, names, datagrams, reach }
}

async function ask(to: DatagramSocket, name: string): Promise<Buffer> {
  const socket = createSocket('udp4')
  socket.send(queryOf({ name }), to.address().port, '127.0.0.1')
  const [answer] = (await once(socket, 'message')) as [Buffer]
  socket.close()
  return answer
}

void tap.test('a name becomes an address, and the address the name', async (t) => {
  const { datagrams, reach, proxied } = await open(t)
  const answer = await ask(datagrams, 'allowed.test')
  t.strictSame([...answer.subarray(-4)], [127, 64, 0, 2])
  const client = reach(443, '127.64.0.2')
  await client.until('hello ')
  client.end()
  t.match(await proxied.event('tunnel_closed'), {
    host: 'allowed.test',
    port: 443,
    via: 'transparent',
  })
  t.strictSame(proxied.lookups, ['allowed.test'])
  t.strictSame(proxied.of('network_blocked'), [])
})

void tap.test('a name that is allowed by the proxy port alone has an address', async (t) => {
  const { datagrams } = await open(t)
  t.strictSame([...(await ask(datagrams, 'wide.test')).subarray(-4)], [127, 64, 0, 2])
  t.strictSame([...(await ask(datagrams, 'box')).subarray(-4)], [127, 0, 0, 1])
})

void tap.test('a denied name is a record, and counted', async (t) => {
  const { datagrams, proxied } = await open(t)
  t.equal((await ask(datagrams, 'evil.test'))[3], 0x83, 'NXDOMAIN')
  t.match(await proxied.event('network_blocked'), {
    host: 'evil.test',
    port: 0,
    via: 'transparent',
    reason: 'no-rule',
    detail: 'no rule allows evil.test',
  })
  t.strictSame(proxied.proxy.stats().denied, { 'no-rule': 1 })
})

void tap.test('the resolver is asked over streams too, by so many at a time', async (t) => {
  const { reach } = await open(t)
  const bytes = queryOf({ name: 'localhost' })
  const framed = Buffer.concat([Buffer.from([0, bytes.length]), bytes])
  for (const use of ['names', 'framed'] as const) {
    const client = reach(use, '127.0.0.1')
    client.send(framed)
    await client.until(2 + bytes.length + 16)
    t.strictSame([...client.bytes.subarray(-4)], [127, 0, 0, 1], use)
  }
  const clients = Array.from({ length: 70 }, () => reach('names', '127.0.0.1'))
  for (const client of clients) client.send(framed)
  const outcomes = await Promise.all(
    clients.map((client) =>
      client.until(10).then(
        () => true,
        () => false,
      ),
    ),
  )
  t.ok(outcomes.filter(Boolean).length <= 64)
})

void tap.test('what is no destination is reset, and the proxy port is the proxy', async (t) => {
  const { reach, proxied } = await open(t)
  for (const [use, host] of [
    [443, '127.0.0.1'],
    [443, '127.0.0.2'],
    [443, '127.64.0.1'],
    ['any', '127.0.0.1'],
  ] as const) {
    const client = reach(use, host)
    await client.closed()
    t.equal(client.text, '', host)
  }
  t.strictSame(proxied.of('network_blocked'), [])
  const client = reach('proxy', '127.0.0.1')
  client.send('CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n')
  t.match(await client.answer(), { status: 403 })
})

void tap.test('a clock that goes back stands still', async (t) => {
  const times = [5, 7, 3, 8]
  const clock = steady(() => times.shift() ?? 0)
  t.strictSame([clock(), clock(), clock(), clock(), clock()], [5, 7, 7, 8, 8])
})
