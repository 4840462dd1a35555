import tap from 'tap'
import { hello } from '../support/client-hello.ts'
import { ESTABLISHED, openProxy, pause, until } from '../support/proxy.ts'
import { OK, openHttpUpstream, openUpstream } from '../support/upstream.ts'

// Requests sent before the answer to the one in front of them.

const GET = 'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n'
const CONNECT = 'CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test\r\n\r\n'

void tap.test('a CONNECT behind a slow GET waits for its answer', async (t) => {
  const upstream = await openHttpUpstream(t, () => undefined)
  const behind = await openUpstream(t, (connection) => connection.send('behind'))
  const proxy = await openProxy(t, {
    rules: ['allowed.test', 'b.test', 'slow.test'],
    hosts: { 'allowed.test': behind, 'slow.test': upstream },
  })
  const slow = GET.replaceAll('allowed', 'slow')
  const bytes = hello('allowed.test')
  const client = await proxy.client(Buffer.concat([Buffer.from(slow + CONNECT), bytes]))
  await upstream.request()
  await pause(20)
  t.equal(behind.connections.length, 0)
  t.equal(client.text, '')
  upstream.connections[0]?.send(OK)
  const first = await client.answer()
  t.equal(first.body, 'ok')
  await client.until('behind')
  t.equal(client.text.slice(first.length), `${ESTABLISHED}behind`)
  await (await behind.connection()).until(bytes.length)
  t.ok(behind.connections[0]?.bytes.equals(bytes), 'the early bytes are all there')

  const denied = await proxy.client(
    slow + CONNECT.replace('allowed.test:443', 'evil.test:443') + GET,
  )
  await upstream.request(1)
  upstream.connections.at(-1)?.send(OK)
  t.equal((await denied.answer()).status, 200)
  t.equal((await denied.answer()).status, 403)
  await denied.closed()
  t.equal(denied.text.match(/HTTP\/1\.1 /g)?.length, 2, 'what is behind a CONNECT is no request')
})

void tap.test('a client that leaves while its CONNECT waits leaves no slot taken', async (t) => {
  const upstream = await openHttpUpstream(t, () => undefined)
  const proxy = await openProxy(t, {
    hosts: { 'allowed.test': upstream },
    limits: { maxTunnels: 3 },
  })
  for (let i = 0; i < 5; i++) {
    const client = await proxy.client(GET + CONNECT)
    await upstream.request(i)
    client.reset()
    await until('it is gone', () => proxy.proxy.stats().connections === 0)
  }
  t.equal((await (await proxy.client(CONNECT)).answer({ connect: true })).status, 200)
  t.equal(upstream.connections.length, 6, 'nothing was dialled for them')
})

void tap.test('answers come in order, one request at a time, however many were sent', async (t) => {
  const upstream = await openHttpUpstream(t, ({ line }, connection) => {
    const path = line.split(' ')[1] ?? ''
    const answer = `HTTP/1.1 200 OK\r\nContent-Length: ${path.length}\r\n\r\n${path}`
    setTimeout(() => connection.send(answer), path === '/0' ? 30 : 0)
    return undefined
  })
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const many = 60
  const heads = Array.from({ length: many }, (_, i) => GET.replace('test/ ', `test/${i} `))
  const client = await proxy.client(heads.join(''))
  for (let i = 0; i < many; i++) t.equal((await client.answer()).body, `/${i}`)
  t.equal(upstream.connections.length, 1, 'never more than one at a time')
})

void tap.test('a fault behind a slow request is told when that one is answered', async (t) => {
  const upstream = await openHttpUpstream(t, () => undefined)
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const rows = [
    'garbage\r\n\r\n',
    'GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n',
    'CONNECT x HTTP/1.1\r\n\r\n',
  ]
  for (const [i, fault] of rows.entries()) {
    const client = await proxy.client(GET + fault)
    const { connection } = await upstream.request(i)
    await pause(5)
    upstream.connections[connection]?.send(OK)
    t.equal((await client.answer()).status, 200)
    t.equal((await client.answer()).status, 400, fault)
    await client.closed()
  }
})

void tap.test('a client that leaves takes every request it had sent with it', async (t) => {
  const upstream = await openHttpUpstream(
    t,
    () => 'HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\nx',
  )
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const client = await proxy.client(GET.repeat(5))
  await client.until('x')
  client.reset()
  await until('the upstream is let go', () => upstream.open === 0)
  t.equal(upstream.connections.length, 1)
})
