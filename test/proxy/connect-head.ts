import { createServer, type IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import tap from 'tap'
import { readPlainConnect } from '../../src/proxy/connect-head.ts'
import { DEFAULT_LIMITS } from '../../src/proxy/limits.ts'
import { CLIENT_HEADS, everyByteEverywhere, randomHead } from '../support/connect-heads.ts'
import { seeded, seedOf } from '../support/random.ts'

const { maxHeadBytes: MAX } = DEFAULT_LIMITS

/** What is made of the bytes of a connection. */
interface Reading {
  readonly method: string | undefined
  readonly url: string | undefined
  readonly httpVersion: string
  readonly rawHeaders: readonly string[]
  readonly rest: string
}

const server = createServer({
  insecureHTTPParser: false,
  requireHostHeader: false,
  maxHeaderSize: MAX,
})
server.maxHeadersCount = 0

/** A connection that has those bytes to read, all at once, and drops what is written. */
class Wire extends Duplex {
  override _read(): void {}
  override _write(_chunk: unknown, _encoding: unknown, done: () => void): void {
    done()
  }
}

/** How Node's server, as the proxy has it, reads bytes; undefined if it is no CONNECT to it. */
async function readByNode(bytes: Buffer): Promise<Reading | undefined> {
  const wire = new Wire()
  const found = new Promise<Reading | undefined>((resolve) => {
    server.once('connect', ({ method, url, httpVersion, rawHeaders }: IncomingMessage, _, head) =>
      resolve({ method, url, httpVersion, rawHeaders, rest: head.toString('latin1') }),
    )
    server.once('clientError', () => resolve(undefined))
    server.once('request', () => resolve(undefined))
    server.once('upgrade', () => resolve(undefined))
    server.emit('connection', wire as unknown as Socket)
    wire.push(bytes)
    wire.push(null)
    wire.once('close', () => resolve(undefined))
  })
  const reading = await found
  for (const name of ['connect', 'clientError', 'request', 'upgrade'])
    server.removeAllListeners(name)
  wire.destroy()
  return reading
}

function readPlainly(bytes: Buffer): Reading | undefined {
  const found = readPlainConnect(bytes, MAX)
  if (!found) return undefined
  const { method, url, httpVersion, rawHeaders } = found.head
  return { method, url, httpVersion, rawHeaders, rest: bytes.toString('latin1', found.length) }
}

/** Compares what was accepted with Node's reading; answers how many were, and the first few that differ. */
async function compare(heads: Iterable<string>) {
  let accepted = 0
  const different: unknown[] = []
  for (const head of heads) {
    const bytes = Buffer.from(head, 'latin1')
    const plain = readPlainly(bytes)
    if (!plain) continue
    accepted++
    const byNode = await readByNode(bytes)
    if (JSON.stringify(byNode) !== JSON.stringify(plain) && different.length < 5) {
      different.push({ head, plain, byNode })
    }
  }
  return { accepted, different }
}

void tap.test('the comparison sees what Node refuses', async (t) => {
  t.match(await readByNode(Buffer.from('CONNECT a:1 HTTP/1.1\r\nX: \xe4\r\n\r\nrest', 'latin1')), {
    url: 'a:1',
    rawHeaders: ['X', '\xe4'],
    rest: 'rest',
  })
  for (const head of [
    'CONNECT a:1 HTTP/1.1\nX: 1\r\n\r\n',
    'GET / HTTP/1.1\r\n\r\n',
    'CONNECT a:1',
  ]) {
    t.equal(await readByNode(Buffer.from(head)), undefined, JSON.stringify(head))
  }
})

void tap.test('the heads of the usual clients are read plainly, as Node reads them', async (t) => {
  for (const [client, head] of Object.entries(CLIENT_HEADS)) {
    for (const rest of ['', '\x16\x03\x01\x02\x00']) {
      const bytes = Buffer.from(head + rest, 'latin1')
      const plain = readPlainly(bytes)
      t.match(plain, { method: 'CONNECT', rest }, client)
      t.strictSame(plain, await readByNode(bytes), client)
    }
  }
})

void tap.test(
  'every byte in every place: what is read plainly is read by Node, the same',
  async (t) => {
    const heads = [
      'CONNECT a.b:1 HTTP/1.1\r\nHost: a.b:1\r\nX: y \r\n\r\nrest',
      'CONNECT [::1]:44 HTTP/1.0\r\n\r\n',
    ]
    for (const head of heads) {
      const { accepted, different } = await compare(everyByteEverywhere(head))
      t.strictSame(different, [])
      t.ok(accepted > 1_500, `${accepted} were accepted`)
    }
  },
)

void tap.test('random heads: what is read plainly is read by Node, the same', async (t) => {
  const seed = seedOf(20_261_130)
  const random = seeded(seed)
  const count = 300_000
  const heads = (function* () {
    for (let i = 0; i < count; i++) yield randomHead(random)
  })()
  const { accepted, different } = await compare(heads)
  t.strictSame(different, [], `SEED=${seed}`)
  t.ok(accepted > 20_000, `${accepted} of ${count} were accepted`)
  t.ok(accepted < count / 2, 'and many were not')
})

void tap.test('long heads: what is read plainly is read by Node, the same', async (t) => {
  const start = 'CONNECT a.test:443 HTTP/1.1\r\n'
  const fill = (length: number, field: string) => {
    const lines = field.repeat(Math.floor((length - start.length - 2) / field.length))
    const left = length - start.length - lines.length - 2
    return `${start}${lines}${left >= 4 ? `Y:${'z'.repeat(left - 4)}\r\n` : ''}\r\nrest`
  }
  const heads = [1, 2, 3, 5, 40, 400].flatMap((value) =>
    [8_000, MAX - 2_000, ...Array.from({ length: 30 }, (_, i) => MAX - 20 + i)].map((length) =>
      fill(length, `X: ${'y'.repeat(value)}\r\n`),
    ),
  )
  const { accepted, different } = await compare(heads)
  t.strictSame(different, [])
  t.ok(accepted > 60, `${accepted} were accepted`)
  t.equal(
    readPlainly(Buffer.from(fill(MAX + 5, 'X: y\r\n'))),
    undefined,
    'and none that is too long',
  )
  const url = 'a'.repeat(MAX)
  t.equal(readPlainly(Buffer.from(`CONNECT ${url}:1 HTTP/1.1\r\n\r\n`)), undefined)
})

void tap.test('what is not plain is left to Node', async (t) => {
  const head = (line: string, fields = '') => `${line}\r\n${fields}\r\n`
  const plain = 'CONNECT a.test:443 HTTP/1.1'
  const rows = [
    head('GET http://a.test/ HTTP/1.1'),
    head(plain, 'Content-Length: 0\r\n'),
    head(plain, 'Host: a\r\ntransfer-ENCODING: chunked\r\n'),
    head(plain, 'Upgrade: h2c\r\n'),
    head(plain, 'X: a\r\n b\r\n'),
    head(plain, 'X : a\r\n'),
    head(plain, ': a\r\n'),
    head(plain, 'X: a\nY: b\r\n'),
    head(plain, 'X: a\rY: b\r\n'),
    head(plain, 'X: \0\r\n'),
    head('CONNECT  a.test:443 HTTP/1.1'),
    head('CONNECT a.test:443 HTTP/1.2'),
    `\r\n${head(plain)}`,
    plain,
    `${plain}\r\n`,
    '',
  ]
  for (const row of rows) t.equal(readPlainly(Buffer.from(row)), undefined, JSON.stringify(row))
  t.match(readPlainly(Buffer.from(head(plain) + head(plain))), { rest: head(plain) })
})
