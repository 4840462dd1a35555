import tap from 'tap'
import { openProxy, until } from '../support/proxy.ts'
import { OK, openHttpUpstream, openUpstream } from '../support/upstream.ts'

const GET = 'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n'

void tap.test('connections to an upstream are kept, for its own host and port alone', async (t) => {
  const upstream = await openHttpUpstream(t)
  const hosts = { 'allowed.test': upstream, 'a.allowed.test': upstream }
  const proxy = await openProxy(t, { hosts })
  const client = await proxy.client()
  const ask = async (host: string) => {
    client.send(`GET http://${host}/ HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    t.equal((await client.answer()).status, 200)
    return upstream.received.at(-1)?.connection
  }
  t.equal(await ask('allowed.test'), 0)
  t.equal(await ask('allowed.test'), 0, 'kept')
  t.equal(await ask('a.allowed.test'), 1, 'another host')
  t.equal(await ask('allowed.test:8080'), 2, 'another port')
  t.equal(await ask('ALLOWED.test.'), 0, 'the same host, spelt another way')
  const other = await proxy.client(GET)
  await other.answer()
  t.equal(upstream.received.at(-1)?.connection, 0, 'another client')
  t.strictSame(proxy.lookups.length, 3)
})

void tap.test(
  'requests of one connection go on one at a time, and are answered in order',
  async (t) => {
    let open = 0
    const upstream = await openHttpUpstream(t, ({ line }, connection) => {
      const path = line.split(' ')[1] ?? ''
      t.equal(++open, 1, `${path} is alone`)
      setTimeout(
        () => {
          open--
          connection.send(`HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n${path}`)
        },
        path === '/0' ? 40 : 1,
      )
      return undefined
    })
    const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
    const paths = ['/0', '/1', '/2', '/3']
    const client = await proxy.client(
      paths
        .map((path) => `GET http://allowed.test${path} HTTP/1.1\r\nHost: allowed.test\r\n\r\n`)
        .join(''),
    )
    for (const path of paths) t.equal((await client.answer()).body, path)
  },
)

void tap.test('a connection serves no second request where anything is left on it', async (t) => {
  const extra = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil'
  const leftovers: Readonly<Record<string, string>> = {
    'a second answer in one go': `${OK}${extra}`,
    'bytes behind a HEAD': OK,
    'bytes behind a 304': 'HTTP/1.1 304 Not Modified\r\n\r\nsurplus',
    'bytes behind a 204': `HTTP/1.1 204 No Content\r\n\r\n${extra}`,
    'an interim answer behind the answer': `${OK}HTTP/1.1 103 Early Hints\r\n\r\n`,
  }
  for (const [title, bytes] of Object.entries(leftovers)) {
    const upstream = await openHttpUpstream(t, ({ line }) => (line.includes('/odd') ? bytes : OK))
    const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
    const method = title.includes('HEAD') ? 'HEAD' : 'GET'
    const client = await proxy.client(
      `${method} http://allowed.test/odd HTTP/1.1\r\nHost: allowed.test\r\n\r\n`,
    )
    await client.answer({ method })
    for (let i = 0; i < 3; i++) {
      const next = await proxy.client(GET)
      t.strictSame((await next.answer()).body, 'ok', title)
    }
    t.ok(upstream.connections.length >= 2, `${title}: a connection of its own`)
    t.notMatch(client.text, /evil|surplus/)
  }
})

void tap.test('an answer that comes late on a kept connection answers nobody', async (t) => {
  const upstream = await openHttpUpstream(t, ({ line }, connection) => {
    if (line.includes('/odd')) {
      setTimeout(() => connection.send('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil'), 20)
    }
    return OK
  })
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const client = await proxy.client(
    'GET http://allowed.test/odd HTTP/1.1\r\nHost: allowed.test\r\n\r\n',
  )
  t.equal((await client.answer()).body, 'ok')
  await until('the connection is given up', () => upstream.open === 0)
  client.send(GET)
  t.equal((await client.answer()).body, 'ok')
  t.equal(upstream.received.at(-1)?.connection, 1)
})

void tap.test('an HTTP/1.0 upstream whose answer ends with its close', async (t) => {
  const upstream = await openHttpUpstream(t, (_, connection) => {
    connection.send('HTTP/1.0 200 OK\r\nX-A: 1\r\n\r\nhalf and ')
    setTimeout(() => {
      connection.send('half')
      connection.end()
    }, 20)
    return undefined
  })
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const client = await proxy.client(GET)
  const answer = await client.answer()
  t.match(answer, { body: 'half and half', isFramed: true })
  client.send(GET)
  t.equal((await client.answer()).body, 'half and half', 'the client’s connection goes on')
})

void tap.test('a 101 that nobody asked for is a 502, and no tunnel', async (t) => {
  const upstream = await openUpstream(t, (connection) => {
    connection.socket.once('data', () => {
      connection.send(
        'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n',
      )
      connection.send(OK)
    })
  })
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  for (const fields of [
    '',
    'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: a\r\n',
  ]) {
    const client = await proxy.client(
      `GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n${fields}\r\n`,
    )
    t.equal((await client.answer({ interim: true })).status, 502)
    await client.closed()
    await upstream.untilOpen(0)
  }
  t.notMatch(upstream.connections.map(({ text }) => text).join(''), /upgrade|settings/i)
})

void tap.test('a kept connection does not outlive the address rule that opened it', async (t) => {
  const upstream = await openHttpUpstream(t)
  const end = Date.UTC(2027, 0, 1)
  let now = end - 1000
  const proxy = await openProxy(t, {
    now: () => now,
    rules: [
      `allowed.test:${upstream.port}`,
      { host: `127.0.0.1:${upstream.port}`, until: new Date(end).toISOString() },
    ],
    hosts: { 'allowed.test': [{ address: '127.0.0.1' }] },
  })
  const client = await proxy.client()
  const ask = async () => {
    const host = `allowed.test:${upstream.port}`
    client.send(`GET http://${host}/ HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    return (await client.answer()).status
  }
  t.equal(await ask(), 200)
  now = end + 10_000
  t.equal(await ask(), 403)
  t.equal(upstream.received.length, 1)
})
