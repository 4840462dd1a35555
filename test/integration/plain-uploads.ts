import tap from 'tap'
import { valuesOf } from '../support/http-answer.ts'
import { openProxy, pause, until } from '../support/proxy.ts'
import { openUpstream } from '../support/upstream.ts'

const HEAD = 'http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n'

void tap.test('an upload that breaks off never looks complete upstream', async (t) => {
  const upstream = await openUpstream(t)
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const rows = [
    'Content-Length: 10\r\n\r\nhalf',
    'Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n',
    'Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nzz\r\n',
  ]
  let index = 0
  for (const rest of rows) {
    for (const how of ['reset', 'end'] as const) {
      const client = await proxy.client(`POST ${HEAD}${rest}`)
      const upper = rest.includes('zz') ? undefined : await upstream.connection(index++)
      await upper?.until('half')
      client[how]()
      if (upper) await until('the upstream is let go', () => upper.isEnded || upper.isClosed)
      t.notMatch(upper?.text ?? '', /0\r\n\r\n$/, `${how} ${rest}`)
      await until('so is the client', () => proxy.proxy.stats().connections === 0)
    }
  }
  const text = upstream.connections.map((connection) => connection.text).join('')
  t.notMatch(text, /\r\n0\r\n\r\n/)
})

void tap.test('a client that ends in the middle of its body is answered', async (t) => {
  const upstream = await openUpstream(t)
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  for (const rest of [
    'Content-Length: 10\r\n\r\nhalf',
    'Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n',
  ]) {
    const client = await proxy.client(`POST ${HEAD}${rest}`)
    client.end()
    t.equal((await client.answer()).status, 400)
    await client.closed()
  }
})

void tap.test('an answer that comes before the body is all there', async (t) => {
  const early = 'HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig'
  const rows = [
    early,
    early
      .replace('Content-Length: 3', 'Transfer-Encoding: chunked')
      .replace('big', '3\r\nbig\r\n0\r\n\r\n'),
  ]
  for (const answer of rows) {
    for (const closes of [true, false]) {
      const upstream = await openUpstream(t, (connection) => {
        connection.socket.once('data', () => {
          connection.send(answer)
          if (closes) connection.end()
        })
      })
      const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
      const body = Buffer.alloc(300_000, 'x')
      const client = await proxy.client(`POST ${HEAD}Content-Length: ${body.length}\r\n\r\n`)
      await (await upstream.connection()).until('\r\n\r\n')
      const got = client.answer()
      for (let at = 0; at < body.length; at += 30_000) {
        client.send(body.subarray(at, at + 30_000))
        await pause(1)
      }
      t.equal((await got).body, 'big', `${closes} ${answer.slice(0, 50)}`)
      t.strictSame(valuesOf(await got, 'connection'), ['close'])
      await client.closed()
      t.equal(client.error, undefined, 'no reset while it was still sending')
      await until('the upstream is let go', () => upstream.open === 0)
    }
  }
})

void tap.test('an exchange that goes both ways at once', async (t) => {
  const upstream = await openUpstream(t, (connection) => {
    connection.socket.once('data', () =>
      connection.send('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n'),
    )
    connection.socket.on('data', () => {
      if (connection.text.endsWith('0\r\n\r\n')) connection.send('3\r\ntwo\r\n0\r\n\r\n')
    })
  })
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const client = await proxy.client(`POST ${HEAD}Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n`)
  await client.until('one')
  client.send('1\r\nb\r\n0\r\n\r\n')
  t.equal((await client.answer()).body, 'onetwo')
  t.match(upstream.connections[0]?.text, /1\r\na\r\n1\r\nb\r\n0\r\n\r\n$/)
})

void tap.test(
  'an early answer without a body does not wait for the rest of the upload',
  async (t) => {
    for (const [method, answer] of [
      ['POST', 'HTTP/1.1 204 No Content\r\n\r\n'],
      ['POST', 'HTTP/1.1 304 Not Modified\r\n\r\n'],
      ['HEAD', 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n'],
    ] as const) {
      const upstream = await openUpstream(t, (connection) => {
        connection.socket.once('data', () => connection.send(answer))
      })
      const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
      const client = await proxy.client(`${method} ${HEAD}Content-Length: 10\r\n\r\nhalf`)
      await client.until('\r\n\r\n')
      await pause(50)
      t.notOk(client.isEnded, `${answer.slice(9, 12)}: the rest may still come`)
      client.send(' more.')
      await client.closed()
      t.equal(client.error, undefined)
      t.equal(client.text.match(/HTTP\/1\.1/g)?.length, 1)
    }
  },
)
