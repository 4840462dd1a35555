import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import tap, { type Test } from 'tap'
import { parseSystemAddress } from '../../src/proxy/local-addresses.ts'
import { hello } from '../support/client-hello.ts'
import { openProxy, type TestProxy, until } from '../support/proxy.ts'
import { type RawClient, rawClientOf } from '../support/raw-client.ts'
import { openUpstream } from '../support/upstream.ts'

/** The names of the tests, by addresses that are this machine's as all of 127.0.0.0/8 is. */
const NAMES: Readonly<Record<string, string>> = {
  '127.64.0.2': 'allowed.test',
  '127.64.0.3': 'denied.test',
  '127.64.0.4': 'unknown.allowed.test',
}

class Names {
  readonly held: string[] = []
  has(address: string): boolean {
    return address.startsWith('127.64.')
  }
  nameOf(address: string): string | undefined {
    return NAMES[address]
  }
  hold(name: string): boolean {
    this.held.push(name)
    return true
  }
  release(name: string): void {
    this.held.splice(this.held.indexOf(name), 1)
  }
}

interface Opened extends TestProxy {
  readonly names: Names
  /** Connects as a program does that knows of no proxy. */
  readonly reach: (address: string, port?: number, send?: string | Buffer) => RawClient
}

/** A proxy, and a server for each port that is reached without a word, as a door has them. */
async function open(t: Test, parts: Parameters<typeof openProxy>[1] = {}): Promise<Opened> {
  const names = new Names()
  const proxied = await openProxy(t, { ...parts, names })
  const ports = new Map<number, number>()
  for (const port of [22, 80, 443]) {
    const server = createServer()
    await new Promise<void>((resolve) => server.listen({ host: '0.0.0.0', port: 0 }, resolve))
    ports.set(port, (server.address() as AddressInfo).port)
    proxied.proxy.attach(server, (socket: Socket) => {
      const ip = parseSystemAddress(socket.localAddress ?? '')
      return ip && socket.localAddress !== '127.0.0.1' ? { ip, port } : undefined
    })
  }
  const reach = (host: string, port = 443, send: string | Buffer = '') => {
    // It may be reset before it knows that it was connected.
    const socket = connect({ host, port: ports.get(port) ?? 0, allowHalfOpen: true })
    t.teardown(() => socket.destroy())
    const client = rawClientOf(socket)
    if (send.length > 0) client.send(send)
    return client
  }
  return Object.assign(proxied, { names, reach })
}

void tap.test('an address that stands for a name is a tunnel to that name', async (t) => {
  const upstream = await openUpstream(t, (connection) => connection.send('hello '))
  const opened = await open(t, { hosts: { 'allowed.test': upstream.port }, audit: true })
  const client = opened.reach('127.64.0.2', 443, '\0plain bytes')
  const connection = await upstream.connection()
  await connection.until('\0plain bytes')
  await client.until('hello ')
  t.strictSame(opened.names.held, ['allowed.test'])
  t.equal(opened.proxy.stats().tunnels, 1)
  client.end()
  connection.end()
  await client.closed()
  const named = { host: 'allowed.test', port: 443, via: 'transparent' }
  t.match(await opened.event('network_allowed'), { ...named, rule: 'allowed.test' })
  t.match(await opened.event('tunnel_closed'), { ...named, cause: 'end' })
  await until('its name is free', () => opened.names.held.length === 0)
  t.equal(client.text, 'hello ', 'the proxy adds no word')
})

void tap.test('its first flight is judged as in every tunnel', async (t) => {
  const upstream = await openUpstream(t)
  const opened = await open(t, { hosts: { 'allowed.test': upstream.port } })
  const good = hello('allowed.test')
  const client = opened.reach('127.64.0.2', 443, good)
  t.strictSame(await bytesOf(await upstream.connection(), good.length), good)
  client.end()
  const refused = opened.reach('127.64.0.2', 443, hello('denied.test'))
  await refused.closed()
  t.equal(refused.bytes[0], 21, 'an alert')
  t.match(opened.of('network_blocked'), [{ reason: 'sni', via: 'transparent' }])
  t.equal((await upstream.connection(1)).bytes.length, 0, 'nothing of it has left')
})

async function bytesOf(
  connection: { until(n: number): Promise<unknown>; bytes: Buffer },
  n: number,
) {
  await connection.until(n)
  return connection.bytes
}

void tap.test('HTTP inside is served for that name alone, and answered in HTTP', async (t) => {
  const upstream = await openUpstream(t, (connection) => {
    connection.socket.once('data', () =>
      connection.send('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'),
    )
  })
  const opened = await open(t, { hosts: { 'allowed.test': upstream.port }, audit: true })
  const client = opened.reach('127.64.0.2', 80, 'GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n')
  t.match(await client.answer(), { status: 200, body: 'ok' })
  client.send('GET / HTTP/1.1\r\nHost: denied.test\r\n\r\n')
  t.match(await client.answer(), { status: 400 })
  t.match(opened.of('network_blocked'), [{ reason: 'host-mismatch' }])
  const [tunnel, request, ...more] = opened.of('network_allowed')
  t.match(tunnel, { host: 'allowed.test', port: 80, via: 'transparent' })
  t.equal(tunnel?.in_tunnel, undefined)
  t.match(request, { host: 'allowed.test', port: 80, in_tunnel: true })
  t.strictSame(more, [])
})

void tap.test('what is refused is a reset, and the record says why', async (t) => {
  const opened = await open(t, { hosts: { 'allowed.test': 1 }, limits: { dialTimeoutMs: 1_000 } })
  const rows: [address: string, port: number, record: object][] = [
    ['127.64.0.3', 443, { reason: 'no-rule', host: 'denied.test', port: 443 }],
    ['127.64.0.4', 443, { reason: 'unresolvable', host: 'unknown.allowed.test' }],
    ['127.64.0.2', 443, { reason: 'dial', host: 'allowed.test' }],
    ['127.64.0.2', 22, { reason: 'dial', host: 'allowed.test', port: 22 }],
    ['127.64.9.9', 443, { reason: 'unresolvable', host: '127.64.9.9', detail: /look the name up/ }],
    ['127.1.2.3', 443, { reason: 'special-address', host: '127.1.2.3' }],
  ]
  for (const [index, [address, port, record]] of rows.entries()) {
    const client = opened.reach(address, port)
    await client.closed()
    t.equal(client.error?.code, 'ECONNRESET', address)
    t.equal(client.text, '')
    t.match(await opened.event('network_blocked', index), { ...record, via: 'transparent' })
  }
  t.strictSame(opened.lookups, ['unknown.allowed.test', 'allowed.test', 'allowed.test'])
  t.strictSame(opened.names.held, [])
  t.equal(opened.proxy.stats().tunnels, 0)
})

void tap.test('a client of SSH is told in its own protocol', async (t) => {
  const opened = await open(t)
  const client = opened.reach('127.64.0.3', 22)
  await client.closed()
  t.match(client.text, /^SSH-2\.0-[^\r]+\r\n/)
  t.match(client.text, 'egress denied: no rule allows denied.test:22')
})

void tap.test('what came to no destination is reset without a record', async (t) => {
  const opened = await open(t)
  const client = opened.reach('127.0.0.1', 443)
  await client.closed()
  t.equal(client.error?.code, 'ECONNRESET')
  t.strictSame(opened.of('network_blocked'), [])
})

void tap.test('limits and a drain hold for it', async (t) => {
  const upstream = await openUpstream(t)
  const opened = await open(t, {
    hosts: { 'allowed.test': upstream.port },
    limits: { maxTunnels: 1 },
  })
  opened.reach('127.64.0.2', 443, '\0')
  await upstream.connection()
  const surplus = opened.reach('127.64.0.2')
  await surplus.closed()
  t.equal(surplus.error?.code, 'ECONNRESET')
  t.match(await opened.event('network_blocked'), { reason: 'limit', via: 'transparent' })
})

void tap.test(
  'an address that stands for a name is that name for clients of the proxy too',
  async (t) => {
    const upstream = await openUpstream(t, (connection) => connection.send('hello '))
    const opened = await open(t, { hosts: { 'allowed.test': upstream.port } })
    const tunnel = await opened.tunnel('127.64.0.2:443')
    await tunnel.until('hello ')
    const gone = await opened.client('CONNECT 127.64.9.9:443 HTTP/1.1\r\nHost: x\r\n\r\n')
    t.match(await gone.answer(), { status: 502 })
    const denied = await opened.client('CONNECT 127.64.0.3:443 HTTP/1.1\r\nHost: x\r\n\r\n')
    t.match(await denied.answer(), { status: 403 })
    t.match(opened.of('network_blocked'), [
      { reason: 'unresolvable', host: '127.64.9.9', via: 'connect' },
      { reason: 'no-rule', host: 'denied.test', via: 'connect' },
    ])
    const socks = await opened.client('\x05\x01\0\x05\x01\0\x01\x7f\x40\0\x02\x01\xbb')
    await socks.until('hello ')
    t.match(opened.lookups, ['allowed.test'])
  },
)

void tap.test('a client that goes while it is dialled for leaves nothing behind', async (t) => {
  const opened = await open(t, { hosts: { 'allowed.test': () => new Promise(() => undefined) } })
  const client = opened.reach('127.64.0.2')
  await until('it is looked up', () => opened.lookups.length === 1)
  client.reset()
  await until('it is gone', () => opened.proxy.stats().connections === 0)
  t.strictSame(opened.names.held, [])
})
