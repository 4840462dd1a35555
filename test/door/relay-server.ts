import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import tap, { type Test } from 'tap'
import { openRelayServer, type RelayServer } from '../../src/door/relay-server.ts'
import { encodePreamble, type RelayLine } from '../../src/door/relay-wire.ts'
import { openProxy, until } from '../support/proxy.ts'
import { type RawClient, rawClientOf } from '../support/raw-client.ts'
import { openUpstream } from '../support/upstream.ts'

const CONTROL = encodePreamble({ kind: 'control' })

interface Opened {
  readonly relay: RelayServer
  readonly path: string
  readonly lines: readonly RelayLine[]
  readonly ends: readonly true[]
  /** What the proxy was given. */
  readonly sockets: readonly Socket[]
  readonly client: (send: string | Buffer) => RawClient
  readonly carried: (id: number, send?: string) => RawClient
}

async function open(t: Test): Promise<Opened> {
  const folder = mkdtempSync(path.join(tmpdir(), 'iet-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const file = path.join(folder, 's')
  const lines: RelayLine[] = []
  const ends: true[] = []
  const relay = await openRelayServer(file, '127.64.0.1', {
    onLine: (line) => lines.push(line),
    onEnd: () => ends.push(true),
  })
  t.teardown(() => relay.close())
  const sockets: Socket[] = []
  for (const { server } of relay.servers) {
    server.on('connection', (socket: Socket) => sockets.push(socket))
  }
  const client = (send: string | Buffer) => {
    const socket = connect({ path: file, allowHalfOpen: true })
    t.teardown(() => socket.destroy())
    const raw = rawClientOf(socket)
    raw.send(send)
    return raw
  }
  const carried = (id: number, send = '') => {
    const preamble = encodePreamble({ kind: 'carried', id, address: '127.0.0.1', port: 3128 })
    return client(Buffer.concat([preamble, Buffer.from(send)]))
  }
  return { relay, path: file, lines, ends, sockets, client, carried }
}

void tap.test('a carried connection looks like the one in the sandbox', async (t) => {
  const { client, carried, sockets } = await open(t)
  client(CONTROL)
  carried(1)
  await until('it is there', () => sockets.length === 1)
  const { localAddress, localPort, remoteAddress, remoteFamily, allowHalfOpen } = sockets[0] ?? {}
  t.strictSame(
    { localAddress, localPort, remoteAddress, remoteFamily, allowHalfOpen },
    {
      localAddress: '127.0.0.1',
      localPort: 3128,
      remoteAddress: '127.0.0.1',
      remoteFamily: 'IPv4',
      allowHalfOpen: true,
    },
  )
})

void tap.test('what a connection is for, by where it came to in the sandbox', async (t) => {
  const { client, relay, sockets } = await open(t)
  const came: string[] = []
  for (const { server, use } of relay.servers) server.on('connection', () => came.push(String(use)))
  client(CONTROL)
  for (const [i, [address, port]] of [
    ['127.0.0.1', 3128],
    ['127.64.0.9', 3128],
    ['127.64.0.1', 53],
    ['127.64.0.9', 53],
    ['203.0.113.5', 443],
    ['2001:db8::7', 443],
  ].entries()) {
    const preamble = {
      kind: 'carried',
      id: i,
      address: String(address),
      port: Number(port),
    } as const
    client(encodePreamble(preamble))
    await until('it is there', () => sockets.length === i + 1)
    t.match(sockets[i], { localAddress: address, localPort: port, remoteAddress: '127.0.0.1' })
  }
  client(encodePreamble({ kind: 'framed' }))
  await until('it is there', () => came.length === 7)
  t.strictSame(came, ['proxy', 'any', 'names', 'any', 'any', 'any', 'framed'])
  const second = client(encodePreamble({ kind: 'framed' }))
  await until('one is enough', () => second.isEnded || second.isClosed)
})

void tap.test('the proxy serves it, whatever pieces it comes in', async (t) => {
  const upstream = await openUpstream(t, (connection) => {
    connection.socket.pipe(connection.socket)
  })
  const { relay, client } = await open(t)
  const { proxy } = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  for (const { server, use } of relay.servers) if (use === 'proxy') proxy.attach(server)
  client(CONTROL)
  const preamble = encodePreamble({ kind: 'carried', id: 1, address: '127.0.0.1', port: 3128 })
  const target = 'allowed.test:7000'
  const bytes = Buffer.concat([
    preamble,
    Buffer.from(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n\0early`),
  ])
  for (const size of [1, 55, 56, 57, 1_000]) {
    const raw = client('')
    const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
      bytes.subarray(i * size, (i + 1) * size),
    )
    await raw.sendPieces(pieces, 1)
    await raw.until('early')
    raw.end()
    await raw.closed()
    t.ok(raw.isEnded && raw.error === undefined, 'an end is an end')
  }
})

void tap.test('the relay is told what the proxy let go of, once', async (t) => {
  const { client, carried, sockets } = await open(t)
  const control = client(CONTROL)
  carried(1)
  await until('the first is there', () => sockets.length === 1)
  carried(2)
  await until('the second is there', () => sockets.length === 2)
  sockets[0]?.destroy()
  t.equal(await control.until('\n'), 'closed 1\n')
  sockets[1]?.destroy()
  await control.until('closed 2\n')
  t.equal(control.text, 'closed 1\nclosed 2\n')
})

void tap.test('resets go by the control connection, both ways', async (t) => {
  const { client, carried, sockets } = await open(t)
  const control = client(CONTROL)
  carried(1)
  await until('it is there', () => sockets.length === 1)
  const [first] = sockets
  const broken = new Promise((resolve) => first?.once('error', resolve))
  control.send('reset 1\n')
  t.match(await broken, { code: 'ECONNRESET' })
  const other = carried(2)
  await until('it is there', () => sockets.length === 2)
  sockets[1]?.resetAndDestroy()
  sockets[1]?.resetAndDestroy()
  t.match(await control.until('\n'), /^reset 2\n$/)
  await other.until('').catch(() => undefined)
  control.send('reset 99\nreset 1\n')
  carried(1)
  await until('a number may be used again', () => sockets.length === 3)
})

void tap.test('what is no relay gets nowhere', async (t) => {
  const { client, carried, sockets, lines } = await open(t)
  const early = carried(1)
  await early.until('').catch(() => undefined)
  await until('it is dropped', () => early.isEnded || early.isClosed)
  const control = client(CONTROL)
  control.send('listening \n')
  await until('it speaks', () => lines.length === 1)
  for (const bad of ['GET / HTTP/1.1\r\n'.repeat(8), Buffer.alloc(56), CONTROL]) {
    const raw = client(bad)
    await until('it is dropped', () => raw.isEnded || raw.isClosed)
  }
  const short = client('IE')
  short.end()
  await until('it is dropped', () => short.isEnded || short.isClosed)
  carried(5)
  await until('it is there', () => sockets.length === 1)
  const twice = carried(5)
  await until('a number is used once', () => twice.isEnded || twice.isClosed)
  t.equal(sockets.length, 1)
  t.strictSame(lines, [{ kind: 'listening', text: '' }])
})

void tap.test('when the relay is gone, so is what it carried', async (t) => {
  for (const last of ['', 'x'.repeat(2_000)]) {
    const { client, carried, sockets, ends } = await open(t)
    const control = client(CONTROL)
    carried(1)
    await until('it is there', () => sockets.length === 1)
    const broken = new Promise((resolve) => sockets[0]?.once('close', resolve))
    if (last === '') control.end()
    else control.send(last)
    await broken
    t.equal(ends.length, 1)
  }
})

void tap.test('closed, nothing is left of it', async (t) => {
  const { relay, client, carried, sockets, path: file } = await open(t)
  const control = client(CONTROL)
  const one = carried(1)
  const silent = client('I')
  await until('it is there', () => sockets.length === 1)
  relay.close()
  relay.close()
  for (const raw of [control, one, silent]) {
    await until('it is over', () => raw.isEnded || raw.isClosed)
  }
  t.notOk(existsSync(file))
  relay.order({ kind: 'probe' })
})
