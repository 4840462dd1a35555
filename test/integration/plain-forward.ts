import { type AddressInfo, createServer, type Socket } from 'node:net'
import tap from 'tap'
import { valuesOf } from '../support/http-answer.ts'
import { openProxy, pause, until } from '../support/proxy.ts'
import { openRaw } from '../support/raw-client.ts'
import { fieldsOf, OK, openHttpUpstream } from '../support/upstream.ts'

const HEAD = 'http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n'
const GET = `GET ${HEAD}\r\n`

void tap.test('connections to one host are used again, up to a Connection: close', async (t) => {
  const upstream = await openHttpUpstream(t, ({ line }) =>
    line.includes('/close')
      ? 'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok'
      : OK,
  )
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const one = await proxy.client()
  const other = await proxy.client()
  for (const client of [one, other, one]) {
    client.send(GET)
    const answer = await client.answer()
    t.strictSame(valuesOf(answer, 'connection'), ['keep-alive'])
  }
  t.equal(upstream.connections.length, 1, 'shared by clients')
  one.send(GET.replace('test/ ', 'test/close '))
  t.strictSame(
    valuesOf(await one.answer(), 'connection'),
    ['keep-alive'],
    'that was about the other hop',
  )
  one.send(GET)
  await one.answer()
  t.equal(upstream.connections.length, 2)
  one.send(`GET ${HEAD}Connection: close\r\n\r\n`)
  t.strictSame(valuesOf(await one.answer(), 'connection'), ['close'])
  await one.closed()
  t.equal(upstream.connections.length, 2)
})

void tap.test('the request line and the fields go on as they are, Via behind them', async (t) => {
  const upstream = await openHttpUpstream(t)
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const rows = [
    ['GET', '/a?b=c&d=%20%zz', '/a?b=c&d=%20%zz'],
    ['GET', '', '/'],
    ['GET', '?q', '/?q'],
    ['OPTIONS', '', '*'],
    ['OPTIONS', '/', '/'],
    ['DELETE', '/x', '/x'],
    ['PROPFIND', '/dav', '/dav'],
    ['GET', '/a//b/../c;d', '/a//b/../c;d'],
    ['GET', '/[]{}|\\^`"<>\'', '/[]{}|\\^`"<>\''],
  ] as const
  for (const [i, [method, path, wanted]] of rows.entries()) {
    const client = await proxy.client(
      `${method} http://allowed.test${path} HTTP/1.1\r\nhOsT: allowed.test\r\nX-B: \xe9\xff\r\nx-a: 1\r\nX-B: 2\r\nCookie: a=b\r\nCookie: c=d\r\n\r\n`,
    )
    t.equal((await client.answer()).status, 200, `${method} ${path}`)
    const request = await upstream.request(i)
    t.equal(request.line, `${method} ${wanted} HTTP/1.1`)
    const kept = request.fields.filter(([name]) => !['connection', 'content-length'].includes(name))
    t.match(kept.at(-1), ['via', /^1\.1 iterion-egress-[0-9a-f]{12}$/])
    t.strictSame(kept.slice(0, -1), [
      ['host', 'allowed.test'],
      ['x-b', '\xe9\xff'],
      ['x-a', '1'],
      ['x-b', '2'],
      ['cookie', 'a=b'],
      ['cookie', 'c=d'],
    ])
  }
})

void tap.test(
  'the fields of an answer keep their bytes, their order and their number',
  async (t) => {
    const upstream = await openHttpUpstream(
      t,
      () =>
        'HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nX-Odd: \xe9\x80\xff "\r\nSet-Cookie: b=2\r\nDate: x\r\nX-Empty:\r\nContent-Length: 2\r\n\r\nok',
    )
    const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
    for (const method of ['GET', 'HEAD']) {
      const client = await proxy.client(GET.replace('GET', method))
      const answer = await client.answer({ method })
      t.strictSame(answer.fields.slice(0, 6), [
        ['set-cookie', 'a=1'],
        ['x-odd', '\xe9\x80\xff "'],
        ['set-cookie', 'b=2'],
        ['date', 'x'],
        ['x-empty', ''],
        ['content-length', '2'],
      ])
      t.match(valuesOf(answer, 'via'), [/^1\.1 iterion-egress-/])
    }
  },
)

void tap.test('framing of requests', async (t) => {
  const upstream = await openHttpUpstream(t)
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const rows = [
    ['POST', 'Content-Length: 5\r\n\r\nhello', 'content-length', '5', 'hello'],
    ['POST', 'Content-Length: 0\r\n\r\n', 'content-length', '0', ''],
    ['POST', '\r\n', 'content-length', '0', ''],
    ['PUT', '\r\n', 'content-length', '0', ''],
    ['GET', 'Content-Length: 5\r\n\r\nhello', 'content-length', '5', 'hello'],
    ['DELETE', 'Content-Length: 5\r\n\r\nhello', 'content-length', '5', 'hello'],
    [
      'POST',
      'Transfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\n\r\n',
      'transfer-encoding',
      'chunked',
      '5\r\nhello\r\n0\r\n\r\n',
    ],
    [
      'POST',
      'Transfer-Encoding: Chunked\r\n\r\n0\r\n\r\n',
      'transfer-encoding',
      'chunked',
      '0\r\n\r\n',
    ],
    [
      'GET',
      'Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n',
      'transfer-encoding',
      'chunked',
      '5\r\nhello\r\n0\r\n\r\n',
    ],
  ] as const
  const client = await proxy.client()
  for (const [i, [method, rest, field, value, body]] of rows.entries()) {
    client.send(`${method} ${HEAD}${rest}`)
    t.equal((await client.answer()).status, 200, `${method} ${rest}`)
    const request = await upstream.request(i)
    t.strictSame(fieldsOf(request, field), [value])
    t.equal(request.body, body)
    const framing = [
      ...fieldsOf(request, 'content-length'),
      ...fieldsOf(request, 'transfer-encoding'),
    ]
    t.equal(framing.length, 1, 'framed once')
  }
  client.send(GET)
  await client.answer()
  const bare = await upstream.request(rows.length)
  t.strictSame(fieldsOf(bare, 'content-length'), [], 'a GET without a body gets no framing')
})

void tap.test('framing of answers, for both versions and HEAD', async (t) => {
  let answer = ''
  const upstream = await openHttpUpstream(t, (_request, connection) => {
    if (!/content-length|chunked|^HTTP\/1\.1 (?:204|304)/i.test(answer))
      setTimeout(() => connection.end(), 5)
    return answer
  })
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const rows: readonly (readonly [bytes: string, body: string])[] = [
    [OK, 'ok'],
    ['HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1;x\r\nk\r\n0\r\n\r\n', 'ok'],
    [
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 9\r\n\r\n2\r\nok\r\n0\r\n\r\n',
      'ok',
    ],
    ['HTTP/1.1 200 OK\r\n\r\nok', 'ok'],
    ['HTTP/1.0 200 OK\r\n\r\nok', 'ok'],
    ['HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok', 'ok'],
    ['HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n', ''],
    ['HTTP/1.1 204 No Content\r\n\r\n', ''],
    ['HTTP/1.1 304 Not Modified\r\nETag: "a"\r\n\r\n', ''],
    ['HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnope', 'nope'],
  ]
  for (const [bytes, body] of rows) {
    answer = bytes
    for (const version of ['1.1', '1.0']) {
      const client = await proxy.client(GET.replace('HTTP/1.1', `HTTP/${version}`))
      const got = await client.answer()
      if (bytes.includes('chunked\r\nContent-Length') && got.status === 502) continue
      t.equal(got.status, Number(bytes.slice(9, 12)), JSON.stringify(bytes))
      t.equal(got.body, body)
      t.equal(got.version, 'HTTP/1.1')
      if (version === '1.0') t.strictSame(valuesOf(got, 'transfer-encoding'), [])
      else t.ok(got.isFramed)
    }
  }
  answer = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'
  const head = await proxy.client(GET.replace('GET', 'HEAD'))
  t.equal((await head.answer({ method: 'HEAD' })).status, 200)
  answer = OK
  head.send(GET)
  t.equal((await head.answer()).body, 'ok', 'the connection is still in step')
})

void tap.test(
  'many interim answers pass, and to one who does not read them they are dropped',
  async (t) => {
    const hint = 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'
    const upstream = await openHttpUpstream(t, (_request, connection) => {
      for (let i = 0; i < 20; i++) connection.send(hint.repeat(1_000))
      return OK
    })
    const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
    const client = await proxy.client(GET)
    t.equal((await client.answer()).body, 'ok')
    t.match(client.text, /^HTTP\/1\.1 103 Early Hints\r\nLink: <\/a>\r\n\r\n/)
    const paused = await proxy.client()
    paused.socket.pause()
    paused.send(GET)
    await upstream.request(1)
    await pause(20)
    paused.socket.resume()
    t.equal((await paused.answer()).body, 'ok')
  },
)

void tap.test(
  'an upstream that closes without an answer, or in the middle of its head: 502',
  async (t) => {
    for (const bytes of ['', 'HTTP/1.1 200 OK\r\nContent-Le', 'HTTP/1.1 100 Continue\r\n\r\n']) {
      for (const how of ['end', 'reset'] as const) {
        const upstream = await openHttpUpstream(t, (_request, connection) => {
          connection.send(bytes)
          setTimeout(() => connection[how](), 5)
          return undefined
        })
        const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
        for (const request of [
          GET,
          `POST ${HEAD}Content-Length: 2\r\n\r\nhi`,
          GET.replace('GET', 'HEAD'),
        ]) {
          const client = await proxy.client(request)
          const answer = await client.answer({ method: request.split(' ')[0] ?? '' })
          t.equal(answer.status, 502, `${how} ${bytes} ${request.slice(0, 4)}`)
          await client.closed()
        }
        t.equal(upstream.received.length, 3, 'no second try on a fresh connection')
        t.strictSame(proxy.of('internal_error'), [])
      }
    }
  },
)

void tap.test(
  'Max-Forwards of an OPTIONS is counted down; at 0 the proxy itself answers',
  async (t) => {
    const upstream = await openHttpUpstream(t)
    const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
    const ask = async (method: string, hops: string) =>
      (await (await proxy.client(`${method} ${HEAD}Max-Forwards: ${hops}\r\n\r\n`)).answer()).status
    t.equal(await ask('OPTIONS', '0'), 204)
    t.equal(upstream.received.length, 0)
    t.equal(await ask('OPTIONS', '5'), 200)
    t.strictSame(fieldsOf(await upstream.request(0), 'max-forwards'), ['4'])
    t.equal(await ask('GET', '0'), 200)
    t.strictSame(
      fieldsOf(await upstream.request(1), 'max-forwards'),
      ['0'],
      'other methods are free to say it',
    )
    t.equal(await ask('TRACE', '5'), 405)
  },
)

void tap.test(
  'a very long list of fields is passed on whole, as far as the limit goes',
  async (t) => {
    const upstream = await openHttpUpstream(t)
    const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
    const fields = Array.from({ length: 1_500 }, (_, i) => `a: ${i}\r\n`).join('')
    const client = await proxy.client(`GET ${HEAD}${fields}\r\n`)
    t.equal((await client.answer()).status, 200)
    t.equal(fieldsOf(await upstream.request(), 'a').length, 1_500)
  },
)

void tap.test('a client that ended its side has a bound on its wait', async (t) => {
  const upstream = await openHttpUpstream(t, () => undefined)
  const server = createServer({ allowHalfOpen: true })
  const accepted: Socket[] = []
  server.on('connection', (socket) => accepted.push(socket))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { proxy } = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  proxy.attach(server)
  const { port } = server.address() as AddressInfo
  const client = await openRaw(t, port, {
    send: 'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n',
  })
  await until('the request is there', () => upstream.received.length === 1)
  t.equal(accepted[0]?.timeout ?? 0, 0)
  client.end()
  await until('the wait is bounded', () => accepted[0]?.timeout === 60_000)
})
