import { createHash } from 'node:crypto'
import { connect as connectTls, createServer as createTlsServer } from 'node:tls'
import type { AddressInfo } from 'node:net'
import tap from 'tap'
import { makeCertificate } from '../support/certificate.ts'
import {
  captureHello,
  hello,
  helloMessage,
  largeKeyShare,
  records,
} from '../support/client-hello.ts'
import { ESTABLISHED, openProxy, pause, until } from '../support/proxy.ts'
import { seeded, seedOf } from '../support/random.ts'
import { openUpstream } from '../support/upstream.ts'

void tap.test('N-02 and N-14 wherever the hello is cut, it passes, unchanged', async (t) => {
  const early = Buffer.from('application bytes glued behind')
  const bytes = Buffer.concat([
    hello('allowed.test', { extensions: [largeKeyShare(1_500)] }),
    early,
  ])
  const wanted = createHash('sha256').update(bytes).digest('hex')
  const upstream = await openUpstream(t)
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  for (const [i, cut] of [1, 5, 6, 43, 517, 1_400].entries()) {
    const client = await proxy.tunnel('allowed.test:443')
    await client.sendPieces([bytes.subarray(0, cut), bytes.subarray(cut)], 2)
    await (await upstream.connection(i)).until(bytes.length)
    t.equal(
      createHash('sha256')
        .update(upstream.connections[i]?.bytes ?? '')
        .digest('hex'),
      wanted,
    )
    client.reset()
  }
})

void tap.test('N-02 byte by byte', async (t) => {
  const bytes = hello('allowed.test')
  const upstream = await openUpstream(t)
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const client = await proxy.tunnel('allowed.test:443')
  await client.sendPieces(
    [...bytes].map((byte) => Buffer.from([byte])),
    0,
  )
  await (await upstream.connection()).until(bytes.length)
  t.ok(upstream.connections[0]?.bytes.equals(bytes))
})

void tap.test('N-14 sixty tunnels, cut at random, at once', async (t) => {
  const random = seeded(seedOf(14))
  const upstream = await openUpstream(t, (connection) => connection.socket.pipe(connection.socket))
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const one = async () => {
    const tail = Buffer.from(Array.from({ length: random.below(4_000) }, () => random.below(256)))
    const bytes = Buffer.concat([
      records(helloMessage({ serverName: 'allowed.test' }), 20 + random.below(400)),
      tail,
    ])
    const pieces: Buffer[] = []
    for (let at = 0; at < bytes.length;) {
      const size = 1 + random.below(900)
      pieces.push(bytes.subarray(at, at + size))
      at += size
    }
    const client = await proxy.tunnel('allowed.test:443')
    await client.sendPieces(pieces, 0)
    await client.until(ESTABLISHED.length + bytes.length)
    return client.bytes.subarray(ESTABLISHED.length).equals(bytes)
  }
  const same = await Promise.all(Array.from({ length: 60 }, one))
  t.ok(same.every(Boolean), 'what comes back is what went out')
})

void tap.test('N-05 a tunnel to an address that a rule lists needs no name', async (t) => {
  const upstream = await openUpstream(t)
  const rules = [`127.0.0.1:${upstream.port}`]
  const proxy = await openProxy(t, { rules, tls: { sni: 'enforce', require: true } })
  const bytes = hello(undefined)
  await proxy.tunnel(`127.0.0.1:${upstream.port}`, bytes)
  await (await upstream.connection()).until(bytes.length)
  t.ok(upstream.connections[0]?.bytes.equals(bytes))
})

void tap.test('N-07 half a hello and then silence', async (t) => {
  const bytes = hello('allowed.test').subarray(0, 40)
  for (const [sni, passes] of [
    ['enforce', false],
    ['report', true],
    ['off', true],
  ] as const) {
    const upstream = await openUpstream(t)
    const hosts = { 'allowed.test': upstream }
    const proxy = await openProxy(t, { hosts, tls: { sni }, limits: { firstFlightTimeoutMs: 60 } })
    const client = await proxy.tunnel('allowed.test:443')
    await pause(80)
    t.notOk(client.isEnded, 'the time runs from the first byte')
    client.send(bytes)
    const upper = await upstream.connection()
    if (passes) {
      await upper.until(bytes.length)
      continue
    }
    await client.closed()
    t.strictSame([...client.bytes.subarray(-2)], [2, 49])
    t.equal(upper.text, '')
    await until('the upstream is let go', () => upstream.open === 0)
    t.strictSame(proxy.reasons, ['sni'])
    await until('the slot is free', () => proxy.proxy.stats().tunnels === 0)
  }
})

void tap.test('N-07 half a hello and then the end', async (t) => {
  const upstream = await openUpstream(t)
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const client = await proxy.tunnel('allowed.test:443', hello('allowed.test').subarray(0, 40))
  client.end()
  await client.closed()
  t.strictSame(proxy.reasons, ['sni'])
  t.equal(upstream.connections[0]?.text, '')
})

void tap.test('require: what is no TLS does not pass on 443, and does elsewhere', async (t) => {
  const upstream = await openUpstream(t)
  const hosts = { 'allowed.test': upstream }
  const proxy = await openProxy(t, { hosts, tls: { sni: 'enforce', require: true } })
  const refused = await proxy.tunnel('allowed.test:443', 'SSH-2.0-x\r\n')
  await refused.closed()
  t.equal(refused.text, ESTABLISHED)
  t.strictSame(proxy.reasons, ['not-tls'])
  t.equal(upstream.connections[0]?.text, '')
  await proxy.tunnel('allowed.test:22', 'SSH-2.0-x\r\n')
  await (await upstream.connection(1)).until('SSH-2.0-x\r\n')
})

void tap.test('a server that speaks first is heard before the client says a word', async (t) => {
  const upstream = await openUpstream(t, (connection) => connection.send('220 ready\r\n'))
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const client = await proxy.tunnel('allowed.test:25')
  await client.until('220 ready\r\n')
  client.send('EHLO me\r\n')
  await (await upstream.connection()).until('EHLO me\r\n')
})

void tap.test(
  'N-12 what is inside an allowed TLS tunnel is not seen; a refused one shows its alert',
  async (t) => {
    const { key, cert } = makeCertificate('allowed.test', 'evil.test')
    const server = createTlsServer({ key, cert }, (socket) => {
      socket.on('error', () => undefined)
      socket.on('data', (chunk: Buffer) => socket.end(`seen: ${chunk.toString()}`))
    })
    server.on('tlsClientError', () => undefined)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    t.teardown(() => server.close())
    const { port } = server.address() as AddressInfo
    const proxy = await openProxy(t, { hosts: { 'allowed.test': port } })
    const ask = async (servername: string, options: object = {}) => {
      const raw = await proxy.tunnel('allowed.test:443')
      raw.socket.removeAllListeners('data')
      const socket = connectTls({ socket: raw.socket, servername, ca: cert, ...options })
      return new Promise<string>((resolve) => {
        let text = ''
        socket.on('data', (chunk: Buffer) => (text += chunk.toString()))
        socket.on('end', () => {
          socket.end()
          resolve(text)
        })
        socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.message))
        socket.write('GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n')
      })
    }
    t.match(await ask('allowed.test'), /^seen: GET \/ HTTP\/1\.1\r\nHost: evil\.test/)
    t.match(await ask('allowed.test', { maxVersion: 'TLSv1.2' }), /^seen: /)
    t.match(await ask('evil.test'), /unrecognized name/i)
    t.equal((await proxy.event('tunnel_closed')).sni, 'allowed.test')
  },
)

void tap.test('the hello of a real client, of every version', async (t) => {
  const upstream = await openUpstream(t)
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const options = [
    {},
    { maxVersion: 'TLSv1.2' },
    { minVersion: 'TLSv1.3' },
    { ALPNProtocols: ['h2', 'http/1.1'] },
  ] as const
  for (const [i, more] of options.entries()) {
    const bytes = await captureHello({ servername: 'allowed.test', ...more })
    await proxy.tunnel('allowed.test:443', bytes)
    await (await upstream.connection(i)).until(bytes.length)
    t.ok(upstream.connections[i]?.bytes.equals(bytes))
  }
})
