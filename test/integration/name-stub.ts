import { createSocket } from 'node:dgram'
import { Resolver } from 'node:dns/promises'
import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import tap, { type Test } from 'tap'
import type { NameStub } from '../../src/door/name-stub.ts'
import { serveDatagrams, serveStream } from '../../src/door/serve-names.ts'
import { openStub } from '../support/name-stub.ts'

/** A stub on UDP and TCP of one port of loopback, and Node's own resolver (c-ares), which asks nobody else. */
async function open(t: Test, stub: NameStub) {
  const counts = { datagrams: 0, connections: 0 }
  const connections = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    counts.connections++
    connections.add(socket)
    serveStream(socket, stub)
  })
  const datagrams = createSocket('udp4')
  serveDatagrams(datagrams, stub)
  datagrams.on('message', () => counts.datagrams++)
  t.teardown(() => {
    server.close()
    datagrams.close()
    for (const one of connections) one.destroy()
  })
  // A port that is free for TCP is as a rule free for UDP; if not, the next one is tried.
  for (let attempt = 0; ; attempt++) {
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    datagrams.bind(port, '127.0.0.1')
    const isBound = await once(datagrams, 'listening').then(
      () => true,
      () => false,
    )
    if (isBound) break
    if (attempt === 10) throw new Error('no port is free for both')
    server.close()
    await once(server, 'close')
  }
  const resolver = new Resolver({ timeout: 1_000, tries: 2 })
  resolver.setServers([`127.0.0.1:${datagrams.address().port}`])
  return { resolver, counts }
}

async function codeOf(asked: Promise<unknown>): Promise<string | undefined> {
  return asked.then(
    () => undefined,
    (error: NodeJS.ErrnoException) => error.code,
  )
}

void tap.test("Node's resolver over UDP", async (t) => {
  const { stub, names, denied } = openStub()
  const { resolver, counts } = await open(t, stub)
  t.strictSame(await resolver.resolve4('api.example.test'), ['127.64.0.2'])
  t.strictSame(await resolver.resolve4('API.example.TEST', { ttl: true }), [
    { address: '127.64.0.2', ttl: 5 },
  ])
  t.strictSame(await resolver.resolve4('x.wild.test'), ['127.64.0.3'])
  t.strictSame(await resolver.reverse('127.64.0.3'), ['x.wild.test'])
  t.strictSame(await resolver.resolvePtr('1.0.0.127.in-addr.arpa'), ['localhost'])
  t.strictSame(await resolver.resolve4('box'), ['127.0.0.1'])
  t.equal(await codeOf(resolver.resolve6('api.example.test')), 'ENODATA')
  t.equal(await codeOf(resolver.resolveTxt('api.example.test')), 'ENODATA')
  t.equal(await codeOf(resolver.resolve4('evil.test')), 'ENOTFOUND')
  t.equal(await codeOf(resolver.resolve6('evil.test')), 'ENOTFOUND')
  t.equal(await codeOf(resolver.reverse('8.8.8.8')), 'ENOTFOUND')
  t.strictSame(denied, ['evil.test'])
  t.equal(names.size, 2)
  t.equal(counts.connections, 0)
  t.ok(counts.datagrams >= 10)
})

void tap.test("Node's resolver asks again over TCP when an answer is cut", async (t) => {
  const { stub } = openStub()
  const { resolver, counts } = await open(t, {
    answerStream: (query) => stub.answerStream(query),
    answerDatagram(query) {
      const answer = stub.answerDatagram(query)
      // TC: the stub's own answers are all short enough.
      answer?.writeUInt8(answer.readUInt8(2) | 0x02, 2)
      return answer
    },
  })
  const asked = ['a', 'b', 'c'].map((label) => resolver.resolve4(`${label}.wild.test`))
  const addresses = (await Promise.all(asked)).flat()
  t.strictSame(new Set(addresses), new Set(['127.64.0.2', '127.64.0.3', '127.64.0.4']))
  t.equal(await codeOf(resolver.resolve4('evil.test')), 'ENOTFOUND')
  t.ok(counts.connections > 0, `${counts.connections} connections`)
})

void tap.test('many at a time', async (t) => {
  const { stub, names } = openStub()
  const { resolver } = await open(t, stub)
  const all = Array.from({ length: 100 }, (_, i) => `n${i}.wild.test`)
  const found = await Promise.all(all.map((name) => resolver.resolve4(name)))
  t.strictSame(
    found.map(([address = '']) => names.nameOf(address)),
    all,
  )
})
