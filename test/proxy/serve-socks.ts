import tap from 'tap'
import { openProxy, until } from '../support/proxy.ts'
import { hello } from '../support/client-hello.ts'
import { openUpstream } from '../support/upstream.ts'

const NO_AUTHENTICATION = '\x05\x01\0'
const GRANTED = '\x05\0\0\x01\0\0\0\0\0\0'
const reply = (code: number) => `\x05${String.fromCharCode(code)}\0\x01\0\0\0\0\0\0`

function ask(name: string, port = 443, command = 1): string {
  const length = String.fromCharCode(name.length)
  const high = String.fromCharCode(port >> 8)
  return `\x05${String.fromCharCode(command)}\0\x03${length}${name}${high}${String.fromCharCode(port & 255)}`
}

void tap.test('a tunnel, byte by byte and all at once', async (t) => {
  const upstream = await openUpstream(t, (connection) => connection.send('hello '))
  const proxied = await openProxy(t, { hosts: { 'allowed.test': upstream.port } })
  const handshake = NO_AUTHENTICATION + ask('allowed.test')
  for (const [index, pieces] of [
    [handshake],
    handshake.split(''),
    [NO_AUTHENTICATION, ask('allowed.test')],
  ].entries()) {
    const client = await proxied.client()
    await client.sendPieces(pieces)
    await client.until(`\x05\0${GRANTED}hello `)
    client.send('\x00plain bytes')
    const connection = await upstream.connection(index)
    await connection.until('\x00plain bytes')
    client.end()
    connection.end()
    await client.closed()
    t.match(await proxied.event('tunnel_closed', index), {
      host: 'allowed.test',
      port: 443,
      via: 'socks',
      cause: 'end',
    })
  }
  t.equal(proxied.proxy.stats().tunnels, 0)
})

void tap.test(
  'bytes that came with the request are the tunnel, and its first flight is judged',
  async (t) => {
    const upstream = await openUpstream(t)
    const proxied = await openProxy(t, { hosts: { 'allowed.test': upstream.port } })
    const good = hello('allowed.test')
    const client = await proxied.client(
      Buffer.concat([Buffer.from(NO_AUTHENTICATION + ask('allowed.test'), 'latin1'), good]),
    )
    const connection = await upstream.connection()
    await connection.until(good.length)
    t.strictSame(connection.bytes, good)
    client.end()
    connection.end()
    const other = hello('denied.test')
    const refused = await proxied.client(
      Buffer.concat([Buffer.from(NO_AUTHENTICATION + ask('allowed.test'), 'latin1'), other]),
    )
    await refused.closed()
    t.strictSame(proxied.reasons, ['sni'])
    t.equal((await upstream.connection(1)).bytes.length, 0, 'nothing of it has left')
  },
)

void tap.test('what is refused has its reply, its record, and a closed connection', async (t) => {
  const proxied = await openProxy(t, {
    hosts: { 'allowed.test': 1 },
    limits: { dialTimeoutMs: 1_000 },
  })
  const rows: [request: string, code: number, record: object][] = [
    [ask('denied.test'), 2, { reason: 'no-rule', host: 'denied.test', port: 443 }],
    [
      '\x05\x01\0\x01\x7f\0\0\x01\0\x50',
      2,
      { reason: 'special-address', host: '127.0.0.1', port: 80 },
    ],
    [
      '\x05\x01\0\x01\xa9\xfe\xa9\xfe\0\x50',
      2,
      { reason: 'metadata-address', host: '169.254.169.254' },
    ],
    [ask('2852039166', 80), 2, { reason: 'metadata-address', host: '169.254.169.254' }],
    [ask('a.test:443@x'), 1, { reason: 'bad-target' }],
    [ask('allowed.test', 0), 1, { reason: 'bad-target' }],
    [ask('allowed.test', 443, 2), 7, { reason: 'bad-target', host: 'allowed.test', port: 443 }],
    [ask('allowed.test', 443, 3), 7, { reason: 'bad-target' }],
    ['\x05\x01\0\x09', 8, { reason: 'bad-target' }],
    [ask('unknown.allowed.test'), 4, { reason: 'unresolvable' }],
    [ask('allowed.test'), 5, { reason: 'dial' }],
    ['\x05\x01\x07\x03', 1, { reason: 'bad-target' }],
  ]
  for (const [index, [request, code, record]] of rows.entries()) {
    const client = await proxied.client(NO_AUTHENTICATION + request)
    await client.closed()
    t.equal(client.text, `\x05\0${reply(code)}`, JSON.stringify(request))
    t.ok(client.isEnded, 'that is a proper end')
    t.match(await proxied.event('network_blocked', index), { ...record, via: 'socks' })
  }
  t.strictSame(
    proxied.lookups,
    ['unknown.allowed.test', 'allowed.test'],
    'a denied name is not looked up',
  )
})

void tap.test('a token is the password, whoever the user is', async (t) => {
  const upstream = await openUpstream(t, (connection) => connection.send('hello '))
  const proxied = await openProxy(t, { hosts: { 'allowed.test': upstream.port }, token: 'secret' })
  const password = (text: string, user = 'me') =>
    `\x01${String.fromCharCode(user.length)}${user}${String.fromCharCode(text.length)}${text}`
  const refused = [
    [NO_AUTHENTICATION, '\x05\xff'],
    ['\x05\x01\x01', '\x05\xff'],
    ['\x05\0', '\x05\xff'],
    [`\x05\x01\x02${password('wrong')}`, '\x05\x02\x01\x01'],
    [`\x05\x02\0\x02${password('')}`, '\x05\x02\x01\x01'],
    [`\x05\x01\x02${password('secret:')}`, '\x05\x02\x01\x01'],
  ]
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
  const before = timers()
  for (const [index, [sent = '', answer]] of refused.entries()) {
    const client = await proxied.client(sent + ask('allowed.test'))
    await client.closed()
    t.equal(client.text, answer, JSON.stringify(sent))
    t.match(await proxied.event('network_blocked', index), { reason: 'auth', via: 'socks' })
  }
  t.strictSame(proxied.lookups, [])
  await until('no timer is left of them', () => timers() <= before + 1)
  for (const user of ['me', '', 'a:b']) {
    const client = await proxied.client(
      `\x05\x02\0\x02${password('secret', user)}${ask('allowed.test')}`,
    )
    await client.until(`\x05\x02\x01\0${GRANTED}hello `)
    client.reset()
  }
})

void tap.test('without a token to show, a password is none of our business', async (t) => {
  const upstream = await openUpstream(t, (connection) => connection.send('hello '))
  const proxied = await openProxy(t, { hosts: { 'allowed.test': upstream.port } })
  const client = await proxied.client(`\x05\x01\x02\x01\x01u\x01p${ask('allowed.test')}`)
  await client.until(`\x05\x02\x01\0${GRANTED}hello `)
})

void tap.test('a client that stops in the middle is answered in time, or let go', async (t) => {
  const proxied = await openProxy(t, { limits: { headTimeoutMs: 100 } })
  const rows: [sent: string, answer: string][] = [
    ['\x05', '\x05\xff'],
    [NO_AUTHENTICATION, `\x05\0${reply(1)}`],
    ['\x05\x01\x02', '\x05\x02\x01\x01'],
    [`${NO_AUTHENTICATION}\x05\x01\0\x03\x09allo`, `\x05\0${reply(1)}`],
  ]
  for (const [sent, answer] of rows) {
    const late = await proxied.client(sent)
    await late.closed()
    t.equal(late.text, answer)
    const ending = await proxied.client(sent)
    ending.end()
    await ending.closed()
    t.equal(ending.text, answer)
    const gone = await proxied.client(sent)
    gone.reset()
    await gone.closed()
  }
  t.strictSame(new Set(proxied.reasons), new Set(['bad-target']))
  for (let waited = 0; proxied.proxy.stats().connections > 0 && waited < 3_000; waited += 10) {
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  t.equal(proxied.proxy.stats().connections, 0, 'nothing is left of them')
})

void tap.test('limits and a drain are told in SOCKS', async (t) => {
  const upstream = await openUpstream(t)
  const proxied = await openProxy(t, {
    hosts: { 'allowed.test': upstream.port },
    limits: { maxTunnels: 1 },
  })
  const first = await proxied.client(NO_AUTHENTICATION + ask('allowed.test'))
  await first.until(`\x05\0${GRANTED}`)
  const second = await proxied.client(NO_AUTHENTICATION + ask('allowed.test'))
  await second.closed()
  t.equal(second.text, `\x05\0${reply(1)}`)
  t.strictSame(proxied.reasons, ['limit'])
  const waiting = await proxied.client(NO_AUTHENTICATION)
  await waiting.until('\x05\0')
  await proxied.proxy.close({ drainTimeoutMs: 50 })
  await waiting.closed()
  t.equal(waiting.text, `\x05\0${reply(1)}`)
})

void tap.test('HTTP in such a tunnel is held to its name', async (t) => {
  const upstream = await openUpstream(t, (connection) => {
    connection.socket.once('data', () =>
      connection.send('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'),
    )
  })
  const proxied = await openProxy(t, { hosts: { 'allowed.test': upstream.port } })
  const client = await proxied.client(NO_AUTHENTICATION + ask('allowed.test', 80))
  await client.until(`\x05\0${GRANTED}`)
  client.send('GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n')
  await client.until('\r\n\r\nok')
  client.send('GET / HTTP/1.1\r\nHost: other.allowed.test\r\n\r\n')
  await client.until('host-mismatch')
})

void tap.test('HTTP in such a tunnel is answered in HTTP, a fault of our own too', async (t) => {
  const upstream = await openUpstream(t, (connection) => {
    connection.socket.once('data', () =>
      connection.send('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'),
    )
  })
  let isBroken = false
  const proxied = await openProxy(t, {
    hosts: { 'allowed.test': upstream.port },
    now() {
      if (isBroken) throw new TypeError('no clock')
      return Date.now()
    },
  })
  const client = await proxied.client(NO_AUTHENTICATION + ask('allowed.test', 80))
  await client.until(`\x05\0${GRANTED}`)
  client.send('GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n')
  await client.until('\r\n\r\nok')
  isBroken = true
  client.send('GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n')
  await client.until('okHTTP/1.1 500 ')
  isBroken = false
  await client.closed()
})

void tap.test('a fault of our own is a failure, and a record', async (t) => {
  const broken = () => 42 as unknown as []
  const proxied = await openProxy(t, { hosts: { 'allowed.test': broken } })
  const client = await proxied.client(NO_AUTHENTICATION + ask('allowed.test'))
  await client.closed()
  t.equal(client.text, `\x05\0${reply(1)}`)
  t.match(await proxied.event('internal_error'), { message: /TypeError/ })
  t.equal(proxied.proxy.stats().denied.internal, 1)
})

void tap.test('whoever asks for the port of SSH is refused in the words of SSH', async (t) => {
  const proxied = await openProxy(t)
  const client = await proxied.client(NO_AUTHENTICATION + ask('denied.test', 22))
  await client.closed()
  t.ok(client.text.startsWith(`\x05\0${GRANTED}SSH-2.0-iterion_egress\r\n`))
  t.match(client.text, /egress denied: no rule allows denied\.test:22/)
  t.match(await proxied.event('network_blocked'), { reason: 'no-rule', port: 22, via: 'socks' })
})
