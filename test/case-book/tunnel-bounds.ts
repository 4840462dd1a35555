import { readdirSync } from 'node:fs'
import { type Socket } from 'node:net'
import tap from 'tap'
import { DEFAULT_LIMITS } from '../../src/proxy/limits.ts'
import { hello } from '../support/client-hello.ts'
import { valuesOf } from '../support/http-answer.ts'
import { ESTABLISHED, openProxy, pause, until } from '../support/proxy.ts'
import { OK, openHttpUpstream, openUpstream } from '../support/upstream.ts'

const CONNECT = 'CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n'
const GET = 'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n'
const UPGRADE = GET.replace(/\r\n$/, 'Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n')

function descriptors(): number {
  return readdirSync('/proc/self/fd').length
}

void tap.test(
  'T-07 and T-21 by default nothing ends a silent tunnel, stream or upload',
  async (t) => {
    t.equal(DEFAULT_LIMITS.tunnelIdleMs, 0)
    t.equal(DEFAULT_LIMITS.responseIdleMs, 0)
    t.equal(DEFAULT_LIMITS.headTimeoutMs, 10_000, 'the head has its own')
    const upstream = await openHttpUpstream(t, () => undefined)
    const proxy = await openProxy(t, {
      hosts: { 'allowed.test': upstream },
      limits: {
        headTimeoutMs: 150,
        firstFlightTimeoutMs: 150,
        dialTimeoutMs: 150,
        resolveTimeoutMs: 150,
      },
    })
    const waiting = await proxy.client(GET)
    const upload = await proxy.client(
      GET.replace('GET', 'POST').replace(/\r\n$/, 'Content-Length: 8\r\n\r\nhalf'),
    )
    const tunnel = await proxy.tunnel('allowed.test:443', hello('allowed.test'))
    const quiet = await proxy.tunnel('allowed.test:443')
    await pause(190)
    upload.send('rest')
    const posted = await upstream.request(1)
    t.equal(posted.body, 'halfrest', 'a slow upload is no slow head')
    upstream.connections[posted.connection]?.send(OK)
    t.equal((await upload.answer()).status, 200)
    upstream.connections[upstream.received[0]?.connection ?? 0]?.send(OK)
    t.equal((await waiting.answer()).status, 200)
    for (const client of [tunnel, quiet]) t.notOk(client.isEnded || client.isClosed)
  },
)

void tap.test('T-08 an idle limit, where there is one, ends both sides', async (t) => {
  const upstream = await openHttpUpstream(t, () => undefined)
  const hosts = { 'allowed.test': upstream }
  const proxy = await openProxy(t, { hosts, limits: { tunnelIdleMs: 150, responseIdleMs: 150 } })
  await proxy.tunnel('allowed.test:443', hello('allowed.test'))
  const closed = await proxy.event('tunnel_closed')
  t.equal(closed.cause, 'idle')
  await until('the upstream is let go', () => upstream.open === 0)
  const silent = await proxy.client(GET)
  t.equal((await silent.answer()).status, 504)
  const busy = await proxy.tunnel('allowed.test:443')
  for (let i = 0; i < 6; i++) {
    await pause(40)
    busy.send('a\n')
  }
  t.notOk(busy.isEnded, 'traffic one way is traffic')
})

void tap.test('T-11 a client that does not read holds the upstream back', async (t) => {
  const chunk = Buffer.alloc(256 * 1024, 'x')
  const flood = (socket: Socket) => {
    const more = () => {
      while (!socket.destroyed && socket.write(chunk));
    }
    socket.on('drain', more)
    more()
  }
  const upstream = await openUpstream(t, (connection, index) => {
    if (index > 0) connection.send('HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n')
    flood(connection.socket)
  })
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  for (const [i, bytes] of [CONNECT, GET].entries()) {
    const client = await proxy.client()
    client.socket.pause()
    client.send(bytes)
    const { socket } = await upstream.connection(i)
    let last = -1
    await until('it stands still', () => {
      const now = socket.bytesWritten - socket.writableLength
      const stands = now === last && now > 0
      last = now
      return stands
    })
    await pause(60)
    t.ok(socket.bytesWritten - socket.writableLength < 20 * 1024 * 1024, 'not much is taken in')
    client.reset()
    await until('the upstream is let go', () => socket.destroyed)
  }
})

void tap.test('T-11 an upstream that does not read holds the client back', async (t) => {
  const upstream = await openUpstream(t, (connection) => connection.socket.pause())
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const chunk = Buffer.alloc(256 * 1024, 'x')
  for (const bytes of [
    `${CONNECT}\0`,
    GET.replace('GET', 'POST').replace(/\r\n$/, 'Content-Length: 999999999999\r\n\r\n'),
  ]) {
    const client = await proxy.client(bytes)
    const { socket } = client
    let isFull = false
    const more = () => {
      while (!socket.destroyed && !(isFull = !socket.write(chunk)));
    }
    socket.on('drain', more)
    more()
    let last = -1
    await until('it stands still', () => {
      const now = socket.bytesWritten - socket.writableLength
      const stands = now === last && isFull
      last = now
      return stands
    })
    await pause(60)
    t.ok(socket.bytesWritten - socket.writableLength < 20 * 1024 * 1024)
    client.reset()
  }
  // A socket that may not be read does not tell that it was reset; as soon as there is room it does, if only as an end.
  for (const { socket } of upstream.connections) {
    socket.on('end', () => socket.end())
    socket.resume()
  }
  await until('no connection is left', () => proxy.proxy.stats().connections === 0)
})

void tap.test(
  'a client that resets while the upstream takes nothing in: both are closed',
  async (t) => {
    const upstream = await openUpstream(t, (connection) => connection.socket.pause())
    const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
    const before = descriptors()
    const client = await proxy.tunnel(
      'allowed.test:443',
      Buffer.concat([Buffer.from('\n'), Buffer.alloc(8 * 1024 * 1024)]),
    )
    client.end()
    await pause(60)
    client.socket.resetAndDestroy()
    await upstream.connection()
    await proxy.proxy.close({ drainTimeoutMs: 50 })
    await until('the descriptors are back', () => descriptors() < before + 3)
    t.equal(proxy.proxy.stats().tunnels, 0)
  },
)

void tap.test('T-16 a pooled connection that closes as it is used again', async (t) => {
  let answered = 0
  const upstream = await openHttpUpstream(t, ({ line }, connection) => {
    answered++
    if (line.includes('/die')) {
      connection.reset()
      return undefined
    }
    return OK
  })
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const client = await proxy.client()
  const ask = async (method: string, path: string, more = '') => {
    client.send(
      `${method} http://allowed.test/${path} HTTP/1.1\r\nHost: allowed.test\r\n${more}\r\n`,
    )
    return client.answer()
  }
  // The first three leave three idle connections behind, all of which the upstream then drops as they are used.
  const others = await Promise.all([0, 1, 2].map(() => proxy.client(GET)))
  for (const other of others) await other.answer()
  const idle = upstream.connections.length
  for (const connection of upstream.connections) {
    connection.socket.removeAllListeners('data')
    connection.socket.once('data', () => connection.reset())
  }
  t.equal((await ask('GET', 'again')).status, 200, 'asked once more, on a fresh connection')
  t.equal(upstream.connections.length, idle + 1)
  answered = 0
  t.equal((await ask('GET', 'die')).status, 502, 'a fresh connection is not tried twice')
  t.equal(answered, 2, 'once on the old connection, once on a fresh one')
  await (await proxy.client(GET)).answer()
  for (const connection of upstream.connections) {
    if (connection.isClosed) continue
    connection.socket.removeAllListeners('data')
    connection.socket.once('data', () => connection.reset())
  }
  const received = upstream.received.length
  const posted = await proxy.client(
    GET.replace('GET', 'POST').replace(/\r\n$/, 'Content-Length: 2\r\n\r\nhi'),
  )
  t.equal((await posted.answer()).status, 502, 'a POST is never sent twice')
  t.equal(upstream.received.length, received)
})

void tap.test('T-17 a byte goes through at once', async (t) => {
  const upstream = await openUpstream(t, (connection) => connection.socket.pipe(connection.socket))
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const client = await proxy.tunnel('allowed.test:443', '\0')
  await client.until(ESTABLISHED.length + 1)
  const times: number[] = []
  for (let i = 2; i <= 60; i++) {
    const startedAt = performance.now()
    client.send('x')
    await client.until(ESTABLISHED.length + i)
    times.push(performance.now() - startedAt)
  }
  const best = Math.min(...times)
  t.ok(best < 30, `${best.toFixed(1)} ms: no acknowledgement is waited for, that would take 40`)
})

void tap.test(
  'T-22 a refusal is whole however much the client still sends and however slowly it reads',
  async (t) => {
    const upstream = await openHttpUpstream(t)
    const proxy = await openProxy(t, {
      rules: ['allowed.test'],
      hosts: { 'allowed.test': upstream },
    })
    const body = Buffer.alloc(200 * 1024, 'x')
    const post = (host: string, fields: string) =>
      `POST http://${host}/ HTTP/1.1\r\nHost: ${host}\r\n${fields}\r\n`
    const length = `Content-Length: ${body.length}\r\n`
    const rows: readonly (readonly [title: string, bytes: string, status: number])[] = [
      ['denied', post('evil.test', length), 403],
      ['a bad target', post('evil.test:0', length), 400],
      ['no head at all', 'nonsense\r\n\r\n', 400],
      ['a head that is too long', `GET http://allowed.test/${'a'.repeat(20_000)}`, 431],
      ['a denied CONNECT', 'CONNECT evil.test:443 HTTP/1.1\r\nHost: x\r\n\r\n', 403],
      ['a denied upgrade', UPGRADE.replaceAll('allowed', 'evil'), 403],
      ['TLS to the proxy itself', '\x16\x03\x01\x02\x00', 400],
    ]
    for (const [title, head, status] of rows) {
      const client = await proxy.client()
      client.socket.pause()
      client.send(head)
      for (let at = 0; at < body.length; at += 20_000) {
        client.send(body.subarray(at, at + 20_000))
        await pause(2)
      }
      await pause(10)
      client.socket.resume()
      const answer = await client.answer()
      t.equal(answer.status, status, title)
      t.ok(answer.isFramed)
      t.equal(client.error, undefined, title)
      client.end()
    }
    t.equal(proxy.reasons.length, rows.length, 'one record each')
    await until('no connection is left', () => proxy.proxy.stats().connections === 0)
  },
)

void tap.test(
  'T-24 twenty tunnels where ten may be; a slot that is free again serves again',
  async (t) => {
    const upstream = await openUpstream(t)
    const hosts = { 'allowed.test': upstream, 'refused.allowed.test': [{ address: '10.0.0.1' }] }
    const proxy = await openProxy(t, { hosts, limits: { maxTunnels: 10 } })
    const clients = await Promise.all(Array.from({ length: 20 }, () => proxy.client(CONNECT)))
    const answers = await Promise.all(clients.map((client) => client.answer({ connect: true })))
    t.equal(answers.filter(({ status }) => status === 200).length, 10)
    const refused = answers.filter(({ status }) => status === 503)
    t.equal(refused.length, 10)
    for (const answer of refused) {
      t.strictSame(valuesOf(answer, 'retry-after'), ['1'])
      t.strictSame(valuesOf(answer, 'x-iterion-reason'), ['limit'])
    }
    clients.find((_, i) => answers[i]?.status === 200)?.reset()
    await until('a slot is free', () => proxy.proxy.stats().tunnels === 9)
    const failing = CONNECT.replaceAll('allowed', 'refused.allowed')
    for (let i = 0; i < 12; i++) t.equal((await (await proxy.client(failing)).answer()).status, 403)
    await until('they are gone', () => proxy.proxy.stats().connections <= 20)
    for (const client of clients) client.reset()
    await until('all are gone', () => proxy.proxy.stats().tunnels === 0)
    t.equal((await (await proxy.client(CONNECT)).answer({ connect: true })).status, 200)
  },
)
