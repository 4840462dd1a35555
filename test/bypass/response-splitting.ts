import tap from 'tap'
import { openProxy, pause } from '../support/proxy.ts'
import { OK, openHttpUpstream } from '../support/upstream.ts'

// An upstream that tries to answer more than it was asked.

const GET = 'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n'
const EVIL = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil'

void tap.test('bytes behind an answer are given to nobody', async (t) => {
  const rows = [
    OK + EVIL,
    `HTTP/1.1 204 No Content\r\n\r\n${EVIL}`,
    `HTTP/1.1 204 No Content\r\nContent-Length: 50\r\n\r\n${EVIL}`,
    `HTTP/1.1 304 Not Modified\r\nContent-Length: 50\r\n\r\n${EVIL}`,
    `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n${EVIL}`,
    `HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 40\r\n\r\n${EVIL}`,
    `HTTP/1.1 200 OK\r\nX: a\r\n\nHTTP/1.1 200 OK\r\n\r\n${EVIL}`,
    `HTTP/1.1 100 Continue\r\n\r\n${OK}${EVIL}`,
  ]
  for (const bytes of rows) {
    let asked = 0
    const upstream = await openHttpUpstream(t, () => (asked++ === 0 ? bytes : OK))
    const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
    const client = await proxy.client(GET)
    await client.answer()
    await pause(5)
    const other = await proxy.client(GET)
    t.equal((await other.answer()).body, 'ok', JSON.stringify(bytes.slice(0, 50)))
    t.notOk((client.text + other.text).includes('evil'))
  }
})

void tap.test('an unused connection that speaks is closed', async (t) => {
  const upstream = await openHttpUpstream(t)
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const client = await proxy.client(GET)
  await client.answer()
  upstream.connections[0]?.send(EVIL)
  await pause(20)
  client.send(GET)
  t.equal((await client.answer()).body, 'ok')
  t.equal(upstream.connections.length, 2, 'a fresh one is used')
  t.ok(upstream.connections[0]?.isClosed || upstream.connections[0]?.isEnded)
})

void tap.test('an answer to HEAD and a 304 have no body, whatever they announce', async (t) => {
  const upstream = await openHttpUpstream(t, ({ line }) =>
    line.startsWith('HEAD')
      ? 'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n'
      : 'HTTP/1.1 304 Not Modified\r\nContent-Length: 1000\r\nETag: "a"\r\n\r\n',
  )
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const client = await proxy.client()
  for (const method of ['HEAD', 'GET', 'HEAD']) {
    client.send(GET.replace('GET', method))
    const answer = await client.answer({ method })
    t.equal(answer.status, method === 'HEAD' ? 200 : 304)
  }
  t.equal(upstream.connections.length, 1)
})

void tap.test('an answer that breaks off breaks off for the client', async (t) => {
  const rows = [
    'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\n',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nzz\r\n\r\n',
  ]
  for (const bytes of rows) {
    // An old client has nothing but the reset to tell it, and may miss one that comes with the last bytes.
    for (const version of bytes.includes('zz') ? ['1.1'] : ['1.1', '1.0']) {
      for (const how of ['end', 'reset'] as const) {
        const upstream = await openHttpUpstream(t, (_request, connection) => {
          connection.send(bytes)
          setTimeout(() => connection[how](), 30)
          return undefined
        })
        const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
        const client = await proxy.client(GET.replace('HTTP/1.1', `HTTP/${version}`))
        await t.rejects(
          client.answer(),
          /closed without/,
          `${how} ${version} ${JSON.stringify(bytes)}`,
        )
        if (version === '1.0') t.equal(client.error?.code, 'ECONNRESET', 'no proper end')
      }
    }
  }
})
