import tap from 'tap'
import { openProxy, until } from '../support/proxy.ts'
import { seeded, seedOf } from '../support/random.ts'
import { openHttpUpstream } from '../support/upstream.ts'

// The property: whoever connects and does not leave first gets at least one whole HTTP answer before the end.

const HEADS = [
  'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n',
  'GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n',
  'CONNECT allowed.test:80 HTTP/1.1\r\nHost: allowed.test:80\r\n\r\n',
  'CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n',
  'POST http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nContent-Length: 4\r\n\r\nbody',
  'POST http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n',
  'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
  'OPTIONS http://allowed.test HTTP/1.1\r\nHost: allowed.test\r\nMax-Forwards: 0\r\n\r\n',
]

void tap.test('no connection is ever closed unanswered', async (t) => {
  const seed = seedOf(20)
  const random = seeded(seed)
  const upstream = await openHttpUpstream(t)
  const proxy = await openProxy(t, {
    hosts: { 'allowed.test': upstream },
    limits: { headTimeoutMs: 100, responseIdleMs: 150, firstFlightTimeoutMs: 100 },
  })
  const byte = () => String.fromCharCode(random.below(256))
  const bytesOf = (): string => {
    const head = random.pick(HEADS)
    switch (random.below(6)) {
      case 0:
        return Array.from({ length: 1 + random.below(60) }, byte).join('')
      case 1:
        return head.slice(0, 1 + random.below(head.length))
      case 2: {
        const at = random.below(head.length)
        return head.slice(0, at) + byte() + head.slice(at + random.below(3))
      }
      case 3:
        return head + random.pick(HEADS).slice(0, random.below(50))
      case 4:
        return random.pick(HEADS) + Array.from({ length: random.below(20) }, byte).join('')
      default:
        return head.replace('\r\n', random.pick(['\n', '\r', '\r\n\r\n', '\r\n ', '\0\r\n']))
    }
  }
  const one = async () => {
    const bytes = bytesOf()
    const client = await proxy.client()
    const at = random.below(bytes.length)
    await client.sendPieces(
      random.chance(50) ? [bytes] : [bytes.slice(0, at), bytes.slice(at)].filter(Boolean),
    )
    // A client that ends its side before its tunnel is there has left.
    if (random.chance(20) && !bytes.startsWith('CONNECT')) client.end()
    const method = /^(?:HEAD|CONNECT)/.exec(bytes)?.[0] ?? ''
    try {
      await client.answer({ method, connect: method === 'CONNECT' })
    } catch (error) {
      return `${JSON.stringify(bytes)}: ${String(error)}`
    } finally {
      client.reset()
    }
    return undefined
  }
  const failures: string[] = []
  for (let round = 0; round < 8; round++) {
    const found = await Promise.all(Array.from({ length: 40 }, one))
    failures.push(...found.filter((text) => text !== undefined))
  }
  t.strictSame(failures, [], `seed ${seed}`)
  t.strictSame(proxy.of('internal_error'), [])
  await until('nothing is left', () => proxy.proxy.stats().connections === 0)
  t.equal(proxy.proxy.stats().tunnels, 0)
})
