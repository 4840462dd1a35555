import { randomBytes } from 'node:crypto'
import tap from 'tap'
import { parseClientHello } from '../../src/proxy/client-hello.ts'
import {
  captureHello,
  echExtension,
  type Extension,
  greaseExtension,
  hello,
  helloMessage,
  largeKeyShare,
  records,
  serverNameExtension,
} from '../support/client-hello.ts'
import { cpuTimeMs } from '../support/cpu-time.ts'
import { seeded, seedOf } from '../support/random.ts'

const NAMED = { kind: 'hello', serverName: 'a.test', hasEch: false } as const
const UNNAMED = { kind: 'hello', serverName: undefined, hasEch: false } as const

void tap.test("a real client's hello: with a name, without one, of each version", async (t) => {
  const named = await captureHello({ servername: 'a.test' })
  t.strictSame(parseClientHello(named), NAMED)
  t.strictSame(parseClientHello(await captureHello({ servername: '' })), UNNAMED)
  for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
    const bytes = await captureHello({
      servername: 'a.test',
      minVersion: version,
      maxVersion: version,
      ALPNProtocols: ['h2', 'http/1.1'],
    })
    t.strictSame(parseClientHello(bytes), NAMED, version)
  }
})

void tap.test('hellos made by hand: what else may be in them', async (t) => {
  const rows: [title: string, bytes: Buffer, expected: object][] = [
    ['plain', hello('a.test'), NAMED],
    ['no name', hello(), UNNAMED],
    ['no extensions at all', records(helloMessage({ isBare: true })), UNNAMED],
    ['an empty extension block', records(helloMessage()), UNNAMED],
    ['no session', hello('a.test', { sessionId: Buffer.alloc(0) }), NAMED],
    ['GREASE in front', hello('a.test', { before: [greaseExtension()] }), NAMED],
    ['GREASE behind', hello('a.test', { extensions: [greaseExtension(0xfafa)] }), NAMED],
    ['large keys', hello('a.test', { extensions: [largeKeyShare()] }), NAMED],
    ['large keys in front', hello('a.test', { before: [largeKeyShare(4_000)] }), NAMED],
    ['TLS 1.0', hello('a.test', { version: 0x0301 }), NAMED],
    ['SSL 3', hello('a.test', { version: 0x0300 }), NAMED],
    ['ECH', hello('a.test', { extensions: [echExtension()] }), { ...NAMED, hasEch: true }],
    ['ECH alone', hello(undefined, { extensions: [echExtension()] }), { ...UNNAMED, hasEch: true }],
    ['the name as it stands', hello('A.TesT.'), { ...NAMED, serverName: 'A.TesT.' }],
    ['bytes of no name', hello('\0\xff@ '), { ...NAMED, serverName: '\0\xff@ ' }],
  ]
  for (const [title, bytes, expected] of rows)
    t.strictSame(parseClientHello(bytes), expected, title)
})

void tap.test('what is behind the hello is not looked at', async (t) => {
  const message = helloMessage({ serverName: 'a.test' })
  const behind = [Buffer.from([23, 3, 3, 0]), randomBytes(500), Buffer.from('GET / HTTP/1.1\r\n')]
  for (const more of behind) {
    t.strictSame(parseClientHello(Buffer.concat([records(message), more])), NAMED)
    t.strictSame(parseClientHello(records(Buffer.concat([message, more]))), NAMED, 'same record')
  }
})

void tap.test('every beginning of a hello is not yet one, whatever the records', async (t) => {
  const message = helloMessage({ serverName: 'a.test', extensions: [largeKeyShare(200)] })
  for (const size of [16_384, 1, 2, 3, 4, 5, 7, 41]) {
    const bytes = records(message, size)
    for (let length = 0; length < bytes.length; length++) {
      const found = parseClientHello(bytes.subarray(0, length))
      if (found.kind !== 'more') t.fail(`${length} bytes in records of ${size}`, found)
    }
    t.strictSame(parseClientHello(bytes), NAMED, `records of ${size}`)
  }
})

void tap.test('records that are none', async (t) => {
  const message = helloMessage({ serverName: 'a.test' })
  const [first, second] = [records(message.subarray(0, 60)), message.subarray(60)]
  const rows: [title: string, bytes: Buffer][] = [
    ['an alert', Buffer.from([21, 3, 3, 0, 2, 1, 0])],
    ['a change of cipher', Buffer.from([20, 3, 3, 0, 1, 1])],
    ['application data', Buffer.from([23, 3, 3, 0, 1, 0])],
    ['another version', Buffer.concat([Buffer.from([22, 2]), records(message).subarray(2)])],
    ['a version to come', Buffer.concat([Buffer.from([22, 4]), records(message).subarray(2)])],
    ['an empty record', Buffer.from([22, 3, 1, 0, 0])],
    ['an empty record first', Buffer.concat([Buffer.from([22, 3, 1, 0, 0]), records(message)])],
    ['a record that is too long', Buffer.from([22, 3, 1, 0x40, 0x01, 1])],
    ['an empty record between', Buffer.concat([first, Buffer.from([22, 3, 1, 0, 0])])],
    ['an alert between', Buffer.concat([first, Buffer.from([21, 3, 1, 0, 2, 1, 0])])],
    ['data between', Buffer.concat([first, records(second, 16_384, 23)])],
    ['another message', records(Buffer.concat([Buffer.from([2]), message.subarray(1)]))],
    ['a hello request', records(Buffer.from([0, 0, 0, 0]))],
    ['SSL 2', Buffer.from([0x80, 0x2e, 1, 0, 2])],
  ]
  for (const [title, bytes] of rows) t.equal(parseClientHello(bytes).kind, 'malformed', title)
})

/** A hello with its length fields and fields as given. */
function messageOf(body: Buffer): Buffer {
  const length = Buffer.alloc(3)
  length.writeUIntBE(body.length, 0, 3)
  return Buffer.concat([Buffer.from([1]), length, body])
}

void tap.test('hellos that two readers could read differently are malformed', async (t) => {
  const good = helloMessage({ serverName: 'a.test' })
  const body = good.subarray(4)
  const twice = serverNameExtension('b.test')
  const names = (...parts: Buffer[]): Extension => {
    const list = Buffer.concat(parts)
    const length = Buffer.from([list.length >>> 8, list.length & 255])
    return [0, Buffer.concat([length, list])]
  }
  const entry = (name: string, type = 0) =>
    Buffer.concat([Buffer.from([type, 0, name.length]), Buffer.from(name)])
  const withName = (extension: Extension) => records(helloMessage({ extensions: [extension] }))
  const rows: [title: string, bytes: Buffer][] = [
    ['two names in two extensions', hello('a.test', { extensions: [twice] })],
    ['the same name twice', hello('a.test', { extensions: [serverNameExtension('a.test')] })],
    ['two names in one list', withName(names(entry('a.test'), entry('b.test')))],
    ['another type of name', withName(names(entry('a.test', 1)))],
    ['another type, then a name', withName(names(entry('x', 1), entry('a.test')))],
    ['an empty list', withName(names())],
    ['an empty extension', withName([0, Buffer.alloc(0)])],
    ['an empty name', withName(names(entry('')))],
    ['a list that is longer than its extension', withName([0, Buffer.from([0, 9, 0, 0, 1, 97])])],
    ['a list that is shorter', withName([0, Buffer.from([0, 3, 0, 0, 1, 97])])],
    ['a name that is longer than its list', withName([0, Buffer.from([0, 4, 0, 0, 9, 97])])],
    ['a byte behind the name', withName([0, Buffer.from([0, 5, 0, 0, 1, 97, 98])])],
    ['GREASE twice', hello('a.test', { before: [greaseExtension(), greaseExtension()] })],
    ['ECH twice', hello('a.test', { before: [echExtension(), echExtension()] })],
    ['a byte behind the extensions', records(messageOf(Buffer.concat([body, Buffer.from([0])])))],
    ['a byte too few', records(messageOf(body.subarray(0, -1)))],
    ['nothing in it', records(messageOf(Buffer.alloc(0)))],
    ['a session id of 33 bytes', hello('a.test', { sessionId: randomBytes(33) })],
    ['no cipher suites', hello('a.test', { suites: Buffer.alloc(0) })],
    ['half a cipher suite', hello('a.test', { suites: Buffer.from([1, 2, 3]) })],
    ['no compression', hello('a.test', { compressions: Buffer.alloc(0) })],
    ['version 2', hello('a.test', { version: 0x0200 })],
    ['DTLS', hello('a.test', { version: 0xfefd })],
  ]
  for (const [title, bytes] of rows) t.equal(parseClientHello(bytes).kind, 'malformed', title)
  t.strictSame(parseClientHello(records(good)), NAMED)
})

void tap.test('a hello that says it is longer than it comes is never one', async (t) => {
  const message = Buffer.from(helloMessage({ serverName: 'a.test' }))
  message.writeUIntBE(0xffffff, 1, 3)
  t.strictSame(parseClientHello(records(message)), { kind: 'more' })
  const shorter = Buffer.from(helloMessage({ serverName: 'a.test' }))
  shorter.writeUIntBE(shorter.length - 14, 1, 3)
  t.equal(parseClientHello(records(shorter)).kind, 'malformed')
})

void tap.test('any bytes at all get an answer', async (t) => {
  const random = seeded(seedOf(11))
  const good = hello('a.test', { extensions: [echExtension(), largeKeyShare(50)] })
  for (let i = 0; i < 20_000; i++) {
    const bytes = Buffer.from(good.subarray(0, random.below(good.length + 1)))
    for (let flips = random.below(4); flips > 0 && bytes.length > 0; flips--) {
      bytes[random.below(bytes.length)] = random.below(256)
    }
    const { kind } = parseClientHello(bytes)
    if (!['more', 'malformed', 'hello'].includes(kind)) t.fail(bytes.toString('hex'))
  }
  t.pass('20,000 of them')
})

void tap.test('the smallest records, byte by byte, cost little', async (t) => {
  const message = Buffer.alloc(2_700)
  message[0] = 1
  message.writeUIntBE(60_000, 1, 3)
  const bytes = records(message, 1).subarray(0, 16_000)
  const before = cpuTimeMs()
  for (let length = 1; length <= bytes.length; length += 4) {
    if (parseClientHello(bytes.subarray(0, length)).kind !== 'more') t.fail(`at ${length}`)
  }
  const spent = cpuTimeMs() - before
  t.ok(spent < 2_000, `${spent} ms`)
})
