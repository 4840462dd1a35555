import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import tap from 'tap'
import { openBlackHole } from '../support/black-hole.ts'
import { hello } from '../support/client-hello.ts'
import { ESTABLISHED, openProxy, pause, until, watch } from '../support/proxy.ts'
import { OK, openHttpUpstream, openUpstream } from '../support/upstream.ts'

/** Cases whose subject does not exist yet, or that need more time than a test may take. */
const LATER: Readonly<Record<string, string>> = {
  'T-10': 'a signal to the program belongs to the command line and its image',
}

for (const [id, reason] of Object.entries(LATER)) tap.comment(`${id} is not tried here: ${reason}`)

const CONNECT = 'CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n'
const GET = 'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n'
const UPGRADE = GET.replace(/\r\n$/, 'Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n')

function descriptors(): number {
  return readdirSync('/proc/self/fd').length
}

void tap.test('T-01 a client that resets, at whatever moment, does no harm', async (t) => {
  const hole = await openBlackHole(t)
  const upstream = await openUpstream(t)
  const hosts = { 'allowed.test': upstream, 'slow.allowed.test': hole }
  const proxy = await openProxy(t, { rules: ['allowed.test', 'slow.allowed.test'], hosts })
  const slow = (bytes: string) =>
    bytes.replaceAll('//allowed', '//slow.allowed').replaceAll(' allowed', ' slow.allowed')
  const moments: readonly (readonly [title: string, bytes: string | Buffer])[] = [
    ['before any byte', ''],
    ['in the head', CONNECT.slice(0, 30)],
    ['while the dial is pending', slow(CONNECT)],
    ['while the dial of a plain request is pending', slow(GET)],
    ['while the dial of an upgrade is pending', slow(UPGRADE)],
    ['after a 403', CONNECT.replaceAll('allowed', 'evil')],
    ['after a 403 to a plain request', GET.replaceAll('allowed', 'evil')],
    ['after a 400', 'CONNECT x HTTP/1.1\r\n\r\n'],
    [
      'while its first flight is read',
      Buffer.concat([Buffer.from(CONNECT), hello('allowed.test').subarray(0, 50)]),
    ],
    ['after its hello was refused', Buffer.concat([Buffer.from(CONNECT), hello('evil.test')])],
    ['in a tunnel', Buffer.concat([Buffer.from(CONNECT), hello('allowed.test')])],
    ['in a silent tunnel', CONNECT],
    ['while it waits for an answer', GET],
    [
      'in the middle of a body',
      GET.replace('GET', 'POST').replace(/\r\n$/, 'Content-Length: 9\r\n\r\nhalf'),
    ],
    ['while it waits for a 101', UPGRADE],
    ['with a second request behind the first', GET + GET],
    ['with a CONNECT behind a request', GET + CONNECT],
  ]
  const watched = await watch(t, proxy)
  for (const [title, bytes] of moments) {
    const clients = await Promise.all(Array.from({ length: 8 }, () => watched.client(bytes)))
    await watched.untilRead()
    await pause(10)
    for (const client of clients) client.reset()
    await until(`${title}: no connection is left`, () => proxy.proxy.stats().connections === 0)
    await until(`${title}: no tunnel is left`, () => proxy.proxy.stats().tunnels === 0)
    await until(`${title}: the upstreams are let go`, () => upstream.open === 0)
  }
  t.strictSame(proxy.of('internal_error'), [])
})

void tap.test('T-02 dials that nobody waits for any more are given up', async (t) => {
  const hole = await openBlackHole(t)
  const proxy = await openProxy(t, { hosts: { 'allowed.test': hole } })
  const watched = await watch(t, proxy)
  const before = descriptors()
  for (const bytes of [CONNECT, GET, UPGRADE]) {
    const clients = await Promise.all(Array.from({ length: 40 }, () => watched.client(bytes)))
    await watched.untilRead()
    await pause(10)
    for (const client of clients) client.reset()
    await until('the descriptors are back', () => descriptors() < before + 10)
  }
})

void tap.test('T-02 a client that closes before its dial ends leaves nothing behind', async (t) => {
  const upstream = await openUpstream(t)
  const slowly = async () => {
    await pause(150)
    return [{ address: '127.0.0.1', port: upstream.port, given: true }]
  }
  const proxy = await openProxy(t, { hosts: { 'allowed.test': slowly } })
  const watched = await watch(t, proxy)
  const before = descriptors()
  const clients = await Promise.all(Array.from({ length: 40 }, () => watched.client(CONNECT)))
  await watched.untilRead()
  for (const client of clients) client.socket.destroy()
  await until('the descriptors are back', () => descriptors() < before + 10)
  await until('no tunnel is left', () => proxy.proxy.stats().tunnels === 0)
})

void tap.test('T-02 a client that only ended its side is not left without an answer', async (t) => {
  const upstream = await openUpstream(t)
  const slowly = async () => {
    await pause(100)
    return [{ address: '127.0.0.1', port: upstream.port, given: true }]
  }
  const proxy = await openProxy(t, { hosts: { 'allowed.test': slowly } })
  const client = await proxy.client(CONNECT)
  client.end()
  t.match(await client.answer(), { status: 502, phrase: /the client ended its side before/ })
  await client.closed()
  const early = await proxy.client(`${CONNECT}early`)
  early.end()
  await early.until(ESTABLISHED)
  await until('the bytes arrive', () => upstream.connections.at(-1)?.text === 'early')
})

void tap.test('T-04 half-close, both ways, keeps the other way open', async (t) => {
  const size = 1024 * 1024
  const upstream = await openUpstream(t, (connection, index) => {
    if (index % 2 === 1) {
      connection.send('greeting')
      connection.end()
    }
    connection.socket.on('end', () => {
      if (index % 2 === 0) connection.socket.end(Buffer.alloc(size, 'x'))
    })
  })
  const rules = ['allowed.test:*', `127.0.0.1:${upstream.port}`]
  const proxy = await openProxy(t, { rules, hosts: { 'allowed.test': upstream } })
  for (const [i, target] of ['allowed.test:443', `127.0.0.1:${upstream.port}`].entries()) {
    const client = await proxy.tunnel(target, 'req\n')
    client.end()
    await client.until(ESTABLISHED.length + size)
    t.equal(
      upstream.connections[i * 2]?.text,
      'req\n',
      'the upstream saw the end and then answered',
    )

    const other = await proxy.tunnel(target)
    await other.until('greeting')
    await until('the end arrives', () => other.isEnded)
    other.send('late\n')
    await (await upstream.connection(i * 2 + 1)).until('late\n')
    other.end()
    await until('the tunnel ends', () => proxy.proxy.stats().tunnels === 0)
  }
  t.strictSame(
    proxy.of('tunnel_closed').map(({ cause }) => cause),
    ['end', 'end', 'end', 'end'],
  )
})

void tap.test('T-04 a plain client that ends its side still gets its answer', async (t) => {
  const upstream = await openHttpUpstream(t, (_request, connection) => {
    setTimeout(() => connection.send(OK), 30)
    return undefined
  })
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  for (const bytes of [GET, GET + GET, UPGRADE.replace('websocket', 'h2c')]) {
    const client = await proxy.client(bytes)
    client.end()
    t.equal((await client.answer()).body, 'ok')
    if (bytes === GET + GET) t.equal((await client.answer()).body, 'ok')
    await client.closed()
  }
  const tunnel = await proxy.tunnel(
    'allowed.test:80',
    'GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n',
  )
  tunnel.end()
  t.equal((await tunnel.answer()).body, 'ok')
  await until('no connection is left', () => proxy.proxy.stats().connections === 0)
})

void tap.test('T-04 an end that comes while the dial is pending is passed on', async (t) => {
  const upstream = await openUpstream(t)
  const rules = ['allowed.test:*', `127.0.0.1:${upstream.port}`]
  const hosts = {
    'allowed.test': async () => {
      await pause(40)
      return [{ address: '127.0.0.1', port: upstream.port, given: true }]
    },
  }
  const proxy = await openProxy(t, { rules, hosts, now: () => 0 })
  const rows = [
    `${CONNECT}early\n`,
    `CONNECT 127.0.0.1:${upstream.port} HTTP/1.1\r\nHost: x\r\n\r\nearly\n`,
  ]
  for (const [i, bytes] of rows.entries()) {
    const client = await proxy.client(bytes)
    client.end()
    const upper = await upstream.connection(i)
    await until('the upstream sees the end', () => upper.isEnded)
    t.equal(upper.text, bytes.endsWith('early\n') ? 'early\n' : '')
    upper.end()
    await until('the tunnel ends', () => proxy.proxy.stats().tunnels === 0)
  }
})

void tap.test(
  'an upstream that hangs up at once, and a client that follows, leave nothing behind',
  async (t) => {
    const upstream = await openUpstream(t, (connection) => connection.socket.destroy())
    const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
    const client = await proxy.client(CONNECT)
    await client.closed()
    await proxy.event('tunnel_closed')
    t.equal(proxy.proxy.stats().tunnels, 0)
  },
)

void tap.test('T-18 bytes that come while the dial is pending arrive once, in order', async (t) => {
  const upstream = await openUpstream(t)
  const hosts = {
    'allowed.test': async () => {
      await pause(60)
      return [{ address: '127.0.0.1', port: upstream.port, given: true }]
    },
  }
  const proxy = await openProxy(t, { hosts, now: () => 0 })
  const bytes = hello('allowed.test')
  const rows = [
    [Buffer.from('EARLY1'), Buffer.from('EARLY2\n')],
    [bytes.subarray(0, 90), bytes.subarray(90)],
  ] as const
  for (const [i, [first, second]] of rows.entries()) {
    const client = await proxy.client(Buffer.concat([Buffer.from(CONNECT), first]))
    await pause(20)
    client.send(second)
    const upper = await upstream.connection(i)
    await upper.until(first.length + second.length)
    await pause(10)
    t.ok(upper.bytes.equals(Buffer.concat([first, second])))
  }
})

void tap.test('T-20 the bytes of each tunnel are its own', async (t) => {
  const upstream = await openHttpUpstream(t)
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const client = await proxy.client()
  for (let i = 0; i < 3; i++) {
    client.send(GET)
    await client.answer()
  }
  const before = client.text.length
  client.send(CONNECT)
  await client.until(before + ESTABLISHED.length)
  const bytes = hello('allowed.test')
  client.send(bytes)
  const upper = await upstream.connection(1)
  await upper.until(bytes.length)
  upper.send('12345')
  await client.until('12345')
  client.end()
  upper.end()
  const closed = await proxy.event('tunnel_closed')
  t.equal(closed.bytes_up, bytes.length)
  t.equal(closed.bytes_down, 5)
  const { bytesUp, bytesDown } = proxy.proxy.stats()
  t.strictSame([bytesUp, bytesDown], [bytes.length, 5])

  const inside = await proxy.tunnel('allowed.test:80')
  const request = 'GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n'
  inside.send(request)
  const answer = await inside.answer()
  inside.end()
  const second = await proxy.event('tunnel_closed', 1)
  t.equal(second.bytes_up, request.length)
  t.equal(second.bytes_down, answer.length)
})

void tap.test(
  'an attached listener on a unix socket serves like any other, resets included',
  async (t) => {
    const upstream = await openUpstream(t)
    const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
    const folder = mkdtempSync(`${tmpdir()}/door-`)
    t.teardown(() => rmSync(folder, { recursive: true }))
    const path = `${folder}/door`
    const server = createServer({ allowHalfOpen: true })
    await new Promise<void>((resolve) => server.listen(path, resolve))
    proxy.proxy.attach(server)
    const client = connect(path)
    t.teardown(() => client.destroy())
    client.on('error', () => undefined)
    client.write(CONNECT)
    const upper = await upstream.connection()
    await new Promise((resolve) => client.once('data', resolve))
    const closed = new Promise((resolve) => client.once('close', resolve))
    upper.reset()
    await closed
    t.equal((await proxy.event('tunnel_closed')).cause, 'reset')
  },
)
