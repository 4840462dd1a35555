import * as net from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import tap, { type Test } from 'tap'
import { PooledSocket } from '../../src/proxy/pooled-socket.ts'
import { acceptFrom, chooseRelay, connectorOf } from '../../src/proxy/sockets.ts'
import { ESTABLISHED, policyWith, until } from '../support/proxy.ts'
import { openRaw, rawClientOf } from '../support/raw-client.ts'
import { openUpstream } from '../support/upstream.ts'

type Sockets = typeof import('../../src/proxy/sockets.ts')
type Proxies = typeof import('../../src/proxy/egress-proxy.ts')
type Options = net.SocketConstructorOpts & { readonly handle?: unknown; readonly onread?: unknown }

const pooled = { kind: 'pooled', why: '' } as const
const streams = { kind: 'streams', why: '' } as const

class WithoutOnread extends net.Socket {
  constructor(options: Options = {}) {
    super({ ...options, onread: undefined } as Options)
  }
}
class WithoutHandle extends net.Socket {
  constructor(options: Options = {}) {
    super({ ...options, handle: undefined } as Options)
  }
}
class ReadsLater extends net.Socket {
  constructor(options: Options = {}) {
    super({ ...options, manualStart: true } as Options)
  }
}
class Refuses extends net.Socket {
  constructor(options: Options = {}) {
    if (options.onread) throw new TypeError('no such option')
    super(options)
  }
}

/** Every way in which a Node.js may not do what the pooled relay needs, and what is said of it. */
const LACKING: readonly (readonly [socket: typeof net.Socket, why: RegExp])[] = [
  [WithoutOnread, /does not read into the buffer/],
  [WithoutHandle, /does not read into the buffer/],
  [ReadsLater, /does not read the connection/],
  [Refuses, /makes no socket of a connection: no such option/],
]

async function listen(t: Test, server: net.Server, path?: string): Promise<number> {
  await new Promise<void>((resolve) =>
    path === undefined ? server.listen(0, '127.0.0.1', resolve) : server.listen(path, resolve),
  )
  t.teardown(() => server.close())
  const address = server.address()
  return typeof address === 'object' ? (address?.port ?? 0) : 0
}

/** Answers `yes` to every connection of a server, and keeps the sockets. */
function serveFrom(t: Test, server: net.Server, choice: Parameters<typeof acceptFrom>[1]) {
  const sockets: net.Socket[] = []
  acceptFrom(server, choice, (socket) => {
    socket.on('error', () => undefined)
    sockets.push(socket)
    t.teardown(() => socket.destroy())
    socket.on('data', (bytes: Buffer) => socket.end(`${bytes.toString()} yes`))
  })
  return sockets
}

async function ask(t: Test, port: number): Promise<void> {
  const client = await openRaw(t, port, { send: 'well?' })
  t.equal(await client.until('yes'), 'well? yes')
}

/** The modules as they are on a Node.js with another kind of sockets. */
async function importOn(t: Test, Socket: typeof net.Socket) {
  const mocks: Record<string, unknown> = { 'node:net': { ...net, Socket } }
  const importOne = async (name: string): Promise<unknown> => {
    const found: unknown = await t.mockImport(`../../src/proxy/${name}.ts`, mocks)
    // By this name the others know it when they are compiled.
    mocks[`../../src/proxy/${name}.js`] = found
    return found
  }
  await importOne('pooled-socket')
  const sockets = (await importOne('sockets')) as Sockets
  return { sockets, proxies: (await importOne('egress-proxy')) as Proxies }
}

void tap.test(
  'this Node.js has what the pooled relay takes, and another one is taken if asked for',
  async (t) => {
    t.match(chooseRelay(), { kind: 'pooled', why: process.version })
    t.match(chooseRelay('pooled'), { kind: 'pooled', why: process.version })
    t.strictSame(chooseRelay('streams'), { kind: 'streams', why: 'asked for' })
  },
)

void tap.test('a Node.js that lacks something is found out, and a proxy works on it', async (t) => {
  const upstream = await openUpstream(t, (connection) => {
    connection.socket.on('data', (bytes: Buffer) => connection.send(bytes))
  })
  for (const [Socket, why] of LACKING) {
    const { sockets, proxies } = await importOn(t, Socket)
    const choice = sockets.chooseRelay()
    t.match(choice, { kind: 'streams', why }, Socket.name)
    t.match(choice.why, process.version)

    const proxy = proxies.createEgressProxy({
      policy: policyWith({}),
      resolver: async () => [{ address: '127.0.0.1', port: upstream.port, given: true }],
    })
    t.teardown(() => proxy.close({ drainTimeoutMs: 0 }))
    t.match(proxy.stats().relay, { kind: 'streams', why })
    const { port } = await proxy.listen({ host: '127.0.0.1', port: 0 })
    const head = 'CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n'
    const client = await openRaw(t, port, { send: head })
    await client.until(ESTABLISHED)
    client.send('\0and back')
    t.equal(await client.until('and back'), `${ESTABLISHED}\0and back`)
    client.end()
    await (await upstream.connection(upstream.connections.length - 1)).closed()
    await client.closed()
  }
})

void tap.test('a socket that connects is of the kind that was chosen', async (t) => {
  const server = net.createServer((socket) => socket.resume())
  const port = await listen(t, server)
  for (const choice of [pooled, streams]) {
    const socket = connectorOf(choice)('127.0.0.1', port)
    t.teardown(() => socket.destroy())
    await new Promise((resolve) => socket.once('connect', resolve))
    t.equal(socket instanceof PooledSocket, choice.kind === 'pooled')
    t.ok(socket.allowHalfOpen)
  }
})

void tap.test('connections become pooled sockets, whenever the server listens', async (t) => {
  const before = net.createServer()
  const port = await listen(t, before)
  const first = serveFrom(t, before, pooled)
  await ask(t, port)
  t.ok(first[0] instanceof PooledSocket)

  const later = net.createServer()
  const second = serveFrom(t, later, pooled)
  await ask(t, await listen(t, later))
  await new Promise((resolve) => later.close(resolve))
  await ask(t, await listen(t, later))
  t.strictSame(
    second.map((socket) => socket instanceof PooledSocket),
    [true, true],
    'also when it listens once more',
  )

  const plain = net.createServer({ allowHalfOpen: true })
  const third = serveFrom(t, plain, streams)
  await ask(t, await listen(t, plain))
  t.notOk(third[0] instanceof PooledSocket)
})

void tap.test('connections over a unix socket become pooled sockets too', async (t) => {
  const path = join(tmpdir(), `egress-${process.pid}-sockets`)
  const server = net.createServer()
  const sockets = serveFrom(t, server, pooled)
  await listen(t, server, path)
  const socket = net.connect(path)
  t.teardown(() => socket.destroy())
  const client = rawClientOf(socket)
  client.send('well?')
  await client.until('yes')
  t.ok(sockets[0] instanceof PooledSocket)
})

void tap.test('a server that hides its listener, or has another kind, still serves', async (t) => {
  for (const handle of [{}, null, undefined, { onconnection: 'no function' }]) {
    const server = net.createServer({ allowHalfOpen: true })
    const port = await listen(t, server)
    const hiding = new Proxy(server, {
      get: (target, key) => (key === '_handle' ? handle : (Reflect.get(target, key) as unknown)),
    })
    const sockets = serveFrom(t, hiding, pooled)
    await ask(t, port)
    t.notOk(sockets[0] instanceof PooledSocket, 'with the sockets that Node makes')
  }
})

void tap.test(
  'a connection that cannot be accepted is an error of the server, which goes on',
  async (t) => {
    const server = net.createServer()
    serveFrom(t, server, pooled)
    const port = await listen(t, server)
    let error: NodeJS.ErrnoException | undefined
    server.on('error', (found) => (error = found))
    const { _handle: handle } = server as unknown as {
      readonly _handle: { onconnection(status: number, connection: unknown): void }
    }
    handle.onconnection(-24, undefined)
    await until('the error is told', () => error !== undefined)
    t.equal(error?.code, 'EMFILE')
    await ask(t, port)
  },
)
