import { createServer } from 'node:net'
import tap from 'tap'
import { openBlackHole } from '../support/black-hole.ts'
import { hello } from '../support/client-hello.ts'
import { valuesOf } from '../support/http-answer.ts'
import { openProxy, pause, until } from '../support/proxy.ts'
import { openRaw } from '../support/raw-client.ts'
import { OK, openHttpUpstream, openUpstream } from '../support/upstream.ts'

const CONNECT = 'CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n'
const GET = 'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n'

void tap.test(
  'T-09 with everything in flight: done in time, twice at once, nothing left, the port free',
  async (t) => {
    const upstream = await openHttpUpstream(t, ({ line }) =>
      line.includes('/hang') ? undefined : OK,
    )
    const hole = await openBlackHole(t)
    const proxy = await openProxy(t, {
      hosts: { 'allowed.test': upstream, 'slow.allowed.test': hole },
    })
    const tunnels = await Promise.all(
      Array.from({ length: 10 }, () => proxy.tunnel('allowed.test:443')),
    )
    for (const [i, tunnel] of tunnels.entries()) if (i % 2) tunnel.send(hello('allowed.test'))
    const dialling = [
      await proxy.client(CONNECT.replaceAll('allowed', 'slow.allowed')),
      await proxy.client(
        GET.replaceAll('//allowed', '//slow.allowed').replace(': allowed', ': slow.allowed'),
      ),
    ]
    const idle = await Promise.all([0, 1, 2].map(() => proxy.client(GET)))
    for (const client of idle) await client.answer()
    const unfinished = await proxy.client('GET http://allowed.test/ HTTP/1.1\r\nX: a')
    const silent = await proxy.client()
    const hanging = await proxy.client(GET.replace('test/ ', 'test/hang '))
    await until('all are there', () => proxy.proxy.stats().connections === 18)
    await pause(20)

    const startedAt = Date.now()
    await Promise.all([proxy.proxy.close({ drainTimeoutMs: 150 }), proxy.proxy.close()])
    t.ok(Date.now() - startedAt < 3_000, 'the tunnels would never end by themselves')
    const { connections, tunnels: left } = proxy.proxy.stats()
    t.strictSame([connections, left], [0, 0])
    for (const client of [...dialling, unfinished, hanging]) {
      const answer = await client.answer()
      t.equal(answer.status, 503, 'who waits for an answer gets one')
      t.strictSame(valuesOf(answer, 'x-iterion-reason'), ['draining'])
      t.strictSame(valuesOf(answer, 'retry-after'), ['1'])
    }
    for (const client of [...idle, silent]) t.ok(client.isEnded || client.isClosed)
    await until('every client is gone', () =>
      [...tunnels, ...idle].every((one) => one.isEnded || one.isClosed),
    )
    t.equal(proxy.of('tunnel_closed').filter(({ cause }) => cause === 'drain').length, 10)
    await until('so are the upstreams', () => upstream.open === 0)
    const again = createServer()
    await new Promise<void>((resolve, reject) => {
      again.once('error', reject)
      again.listen(proxy.port, '127.0.0.1', resolve)
    })
    again.close()
  },
)

void tap.test('what is under way goes on until it is done', async (t) => {
  const echo = await openUpstream(t, (connection) => connection.socket.pipe(connection.socket))
  const upstream = await openHttpUpstream(t, () => undefined)
  const proxy = await openProxy(t, {
    hosts: { 'allowed.test': upstream, 'echo.allowed.test': echo },
  })
  const tunnel = await proxy.tunnel('echo.allowed.test:443', '\0one')
  await tunnel.until('one')
  const waiting = await proxy.client(GET)
  await upstream.request()
  const idle = await proxy.client()
  const beginning = await proxy.client('GET http://allowed.test/ HT')
  await until('all are there', () => proxy.proxy.stats().connections === 4)
  await pause(20)
  let isClosed = false
  const closed = proxy.proxy.close({ drainTimeoutMs: 3_000 }).then(() => (isClosed = true))
  await t.rejects(openRaw(t, proxy.port), { code: 'ECONNREFUSED' }, 'nobody new')
  await idle.closed()
  tunnel.send('two')
  await tunnel.until('two')
  beginning.send('TP/1.1\r\nHost: allowed.test\r\n\r\n')
  t.equal((await beginning.answer()).status, 503, 'a head that was begun is answered')
  upstream.connections[0]?.send(OK)
  t.equal((await waiting.answer()).body, 'ok')
  await waiting.closed()
  t.notOk(isClosed)
  tunnel.end()
  await tunnel.closed()
  beginning.reset()
  await closed
  t.strictSame(
    proxy.of('tunnel_closed').map(({ cause }) => cause),
    ['end'],
  )
})

void tap.test('an answer that is cut off by the deadline does not look complete', async (t) => {
  const upstream = await openHttpUpstream(
    t,
    () => 'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf',
  )
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const clients = [await proxy.client(GET), await proxy.client(GET.replace('HTTP/1.1', 'HTTP/1.0'))]
  for (const client of clients) await client.until('half')
  await proxy.proxy.close({ drainTimeoutMs: 20 })
  for (const client of clients) {
    await until('it is closed', () => client.isClosed)
    t.equal(client.error?.code, 'ECONNRESET')
  }
})

void tap.test('a closed proxy takes no server and listens nowhere', async (t) => {
  const proxy = await openProxy(t)
  await proxy.proxy.close({ drainTimeoutMs: 0 })
  t.throws(() => proxy.proxy.attach(createServer()), { code: 'OPTION_INVALID' })
  await t.rejects(proxy.proxy.listen({ host: '127.0.0.1', port: 0 }), { code: 'OPTION_INVALID' })
  const racing = await openProxy(t)
  const listening = racing.proxy.listen({ host: '127.0.0.1', port: 0 })
  const closing = racing.proxy.close({ drainTimeoutMs: 0 })
  await t.rejects(listening, { code: 'OPTION_INVALID' })
  await closing
})
