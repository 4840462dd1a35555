import tap from 'tap'
import { valuesOf } from '../support/http-answer.ts'
import { openProxy, until } from '../support/proxy.ts'
import { OK, openHttpUpstream, openUpstream } from '../support/upstream.ts'

const HOST = 'Host: allowed.test\r\n'
const GET = `GET http://allowed.test/ HTTP/1.1\r\n${HOST}`
const POST = `POST http://allowed.test/ HTTP/1.1\r\n${HOST}`

void tap.test('H-10 an answer that cannot be read: 502, and the next request works', async (t) => {
  const odd = [
    'HTTP/1.1 200 OK\r\nX-Cert: line1\r\n\tline2\r\nContent-Length: 2\r\n\r\nok',
    'HTTP/1.1 200 OK\r\nX-A: b\rX-C: d\r\nContent-Length: 2\r\n\r\nok',
    'HTTP/1.1 200 OK\nContent-Length: 2\n\nok',
    'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nok',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
    'HTTP/1.1 200 OK\r\nX \r\n\r\n',
    'nonsense\r\n\r\n',
    `HTTP/1.1 200 OK\r\nX: ${'a'.repeat(70_000)}\r\n\r\n`,
  ]
  let next = 0
  const upstream = await openHttpUpstream(t, ({ line }) =>
    line.includes('/odd') ? odd[next++] : OK,
  )
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  for (const bytes of odd) {
    const client = await proxy.client(`GET http://allowed.test/odd HTTP/1.1\r\n${HOST}\r\n`)
    const answer = await client.answer()
    t.equal(answer.status, 502, JSON.stringify(bytes.slice(0, 60)))
    t.strictSame(valuesOf(answer, 'x-iterion-reason'), ['dial'])
    await client.closed()
    const again = await proxy.client(`${GET}\r\n`)
    t.equal((await again.answer()).body, 'ok')
  }
  t.strictSame(proxy.of('internal_error'), [])
})

void tap.test('H-19 a 101 that nobody asked for: 502, and no blind pipe', async (t) => {
  const answer = 'HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nRAW'
  const upstream = await openHttpUpstream(t, () => answer)
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  for (const extra of ['', 'Upgrade: websocket\r\n', 'Connection: upgrade\r\nUpgrade: x\r\n']) {
    const client = await proxy.client(`${GET}${extra}\r\n`)
    t.equal((await client.answer()).status, 502, JSON.stringify(extra))
    await client.closed()
    t.notOk(client.text.includes('RAW'))
  }
  const tunnel = await proxy.tunnel('allowed.test:80', `GET / HTTP/1.1\r\n${HOST}\r\n`)
  t.equal((await tunnel.answer()).status, 502, 'inside a tunnel')
  await until('every upstream connection is closed', () => upstream.open === 0)
})

void tap.test('H-38 Expect: 100-continue', async (t) => {
  const upstream = await openUpstream(t, (connection) => {
    connection.socket.on('data', () => {
      const { text } = connection
      if (text.includes('/no')) connection.send('HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n')
      else if (text.endsWith('hello')) connection.send(OK)
      else if (text.endsWith('\r\n\r\n')) connection.send('HTTP/1.1 100 Continue\r\n\r\n')
    })
  })
  const proxy = await openProxy(t, { rules: ['allowed.test'], hosts: { 'allowed.test': upstream } })
  const post = (host: string, path: string) =>
    `POST http://${host}${path} HTTP/1.1\r\nHost: ${host}\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n`

  const client = await proxy.client(post('allowed.test', '/up'))
  t.equal((await client.answer({ interim: true })).status, 100)
  client.send('hello')
  t.equal((await client.answer()).body, 'ok')
  t.equal(client.text.match(/HTTP\/1\.1 /g)?.length, 2, 'one final answer')

  const denied = await proxy.client(post('evil.test', '/up'))
  t.equal((await denied.answer({ interim: true })).status, 403, 'at once, without a 100')
  await denied.closed()

  const declined = await proxy.client(post('allowed.test', '/no'))
  const answer = await declined.answer({ interim: true })
  t.equal(answer.status, 417)
  t.strictSame(
    valuesOf(answer, 'connection'),
    ['close'],
    'the body that was announced may never come',
  )

  const odd = await proxy.client(post('allowed.test', '/up').replace('100-continue', '200-ok'))
  t.equal((await odd.answer()).status, 417, 'another expectation')
  await odd.closed()
})

void tap.test('H-39 an HTTP/1.0 client gets no chunks', async (t) => {
  const upstream = await openHttpUpstream(t, (_request, connection) => {
    connection.send('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n')
    setTimeout(() => connection.send('3\r\nay!\r\n0\r\nX-T: 1\r\n\r\n'), 30)
    return undefined
  })
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const client = await proxy.client(`GET http://allowed.test/stream HTTP/1.0\r\n${HOST}\r\n`)
  await client.until(/\r\n\r\nok$/)
  const answer = await client.answer()
  t.equal(answer.body, 'okay!')
  t.notOk(answer.isFramed)
  t.strictSame(valuesOf(answer, 'transfer-encoding'), [])
  t.strictSame(valuesOf(answer, 'trailer'), [])
})

void tap.test('H-41 a 103 is passed on as one and leaves no trace in the 200', async (t) => {
  const upstream = await openHttpUpstream(
    t,
    () =>
      `HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nContent-Length: 7\r\nConnection: x\r\n\r\n${OK}`,
  )
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const client = await proxy.client(`${GET}\r\n`)
  const early = await client.answer({ interim: true })
  t.equal(early.status, 103)
  t.strictSame(early.fields, [['link', '</a>']])
  const final = await client.answer({ interim: true })
  t.equal(final.body, 'ok')
  t.strictSame(valuesOf(final, 'link'), [])
  const old = await proxy.client(`GET http://allowed.test/ HTTP/1.0\r\n${HOST}\r\n`)
  t.equal((await old.answer({ interim: true })).status, 200, 'HTTP/1.0 knows no 1xx')
})

void tap.test(
  'H-42 trailers, both ways, without the fields that mean something elsewhere',
  async (t) => {
    const upstream = await openHttpUpstream(
      t,
      () =>
        'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n2\r\nok\r\n0\r\nX-T: 1\r\n' +
        'Set-Cookie: a=b\r\nHost: evil.test\r\nConnection: close\r\nVia: 1.1 x\r\n\r\n',
    )
    const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
    const client = await proxy.client(
      `${POST}Transfer-Encoding: chunked\r\nTrailer: X-Q\r\n\r\n2\r\nhi\r\n0\r\nX-Q: 2\r\nHost: evil.test\r\n` +
        'Via: 1.1 x\r\n\r\n',
    )
    const answer = await client.answer()
    t.equal(answer.body, 'ok')
    t.strictSame(answer.trailers, [['x-t', '1']])
    const [request] = upstream.received
    t.equal(request?.body, '2\r\nhi\r\n0\r\nX-Q: 2\r\n\r\n')
  },
)

void tap.test('H-42 framing in a trailer breaks the exchange off, both ways', async (t) => {
  for (const field of ['Content-Length: 1', 'Content-Length: 1\r\nContent-Length: 2']) {
    const broken = `2\r\nok\r\n0\r\n${field}\r\n\r\n`
    const upstream = await openHttpUpstream(
      t,
      () => `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${broken}`,
    )
    const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
    const get = await proxy.client(`${GET}\r\n`)
    await t.rejects(get.answer(), /closed without/, 'no answer that looks whole')
    const post = await proxy.client(`${POST}Transfer-Encoding: chunked\r\n\r\n${broken}`)
    t.equal((await post.answer()).status, 400)
    await post.closed()
    t.equal(upstream.received.length, 1, 'no whole request')
  }
})

void tap.test(
  'H-43 odd status lines: 502 or a phrase made harmless, and the proxy lives',
  async (t) => {
    const rows = [
      ['HTTP/1.1 099 X\r\nContent-Length: 0\r\n\r\n', 502],
      ['HTTP/1.1 200 O\xe9\x01K\r\nContent-Length: 2\r\n\r\nok', undefined],
      ['HTTP/1.1 1000 X\r\nContent-Length: 0\r\n\r\n', 502],
      ['HTTP/1.1 999 X\r\nContent-Length: 0\r\n\r\n', 502],
      ['HTTP/1.1 600 X\r\nContent-Length: 0\r\n\r\n', 502],
      ['HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok', 200],
      ['HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok', 200],
      ['ICY 200 OK\r\nContent-Length: 2\r\n\r\nok', 502],
      ['HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok', 502],
      ['', 502],
    ] as const
    let bytes = ''
    const upstream = await openHttpUpstream(t, (_request, connection) => {
      if (bytes === '') connection.end()
      return bytes
    })
    const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
    for (const [answer, status] of rows) {
      bytes = answer
      const client = await proxy.client(`${GET}\r\n`)
      const got = await client.answer()
      if (status === undefined) t.ok([200, 502].includes(got.status), answer)
      else t.equal(got.status, status, JSON.stringify(answer))
      t.match(got.phrase, /^[\t -~\xa0-\xff]*$/)
      t.notOk(got.phrase.includes('\xc3'), 'nothing is encoded twice')
      client.reset()
    }
    t.strictSame(proxy.of('internal_error'), [])
  },
)
