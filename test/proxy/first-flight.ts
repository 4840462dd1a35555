import tap from 'tap'
import {
  type Flight,
  judgeFlight,
  MAX_FLIGHT_BYTES,
  readFlight,
  tlsAlert,
} from '../../src/proxy/first-flight.ts'
import { echExtension, hello, helloMessage, records } from '../support/client-hello.ts'
import { cpuTimeMs } from '../support/cpu-time.ts'
import { NOW, targetOf } from '../support/policy-of.ts'
import { policyWith } from '../support/proxy.ts'

const latin1 = (text: string) => Buffer.from(text, 'latin1')

void tap.test('what bytes are, as text', async (t) => {
  const rows: [bytes: string, kind: Flight['kind']][] = [
    ['', 'more'],
    // A request line, in every spelling that a server may take for one.
    ['GET / HTTP/1.1\r\n', 'http1'],
    ['GET / HTTP/1.1', 'http1'],
    ['get / http/1.1\n', 'http1'],
    ['GeT / HtTp/1.0', 'http1'],
    ['GET / HTTP/0.9\r\n', 'http1'],
    ['GET / HTTP/3.7\r\n', 'http1'],
    ['\r\nGET / HTTP/1.1', 'http1'],
    ['\n\n\r\r\n GET / HTTP/1.1', 'http1'],
    [' \t\v\fGET / HTTP/1.1', 'http1'],
    ['GET\t/\tHTTP/1.1', 'http1'],
    ['GET\v/\fHTTP/1.1', 'http1'],
    ['GET\r/\rHTTP/1.1', 'http1'],
    ['GET   /   HTTP/1.1', 'http1'],
    ['GET  HTTP/1.1', 'http1'],
    ['GET / HTTP/1.1 x\r\n', 'http1'],
    ['GET /\xe9\xff HTTP/1.1\r\n', 'http1'],
    ['GET /\0 HTTP/1.1\r\n', 'http1'],
    ['GET / /evil.test HTTP/1.1\r\n', 'http1'],
    ['GET http://evil.test/ HTTP/1.1', 'http1'],
    ['CONNECT evil.test:80 HTTP/1.1', 'http1'],
    ["X-ODD!#$%&'*+.^_`|~ / HTTP/1.1", 'http1'],
    ['GET /\r\n', 'http1'],
    ['GET /\n', 'http1'],
    ['GET http://evil.test/\r\n', 'http1'],
    ['GET\t/a b c\n', 'http1'],
    ['OPTIONS * HTTP/1.1', 'http1'],
    // Not yet to be told.
    ['G', 'more'],
    ['GET', 'more'],
    ['GET ', 'more'],
    ['GET / HTTP/', 'more'],
    ['GET /', 'more'],
    ['\r\n', 'more'],
    ['  \t', 'more'],
    ['PRI ', 'more'],
    ['PRI * HTTP/', 'more'],
    // The other HTTP.
    ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'http2'],
    ['PRI * HTTP/2', 'http2'],
    ['\r\nPRI * HTTP/2.0', 'http2'],
    // No HTTP.
    ['SSH-2.0-x\r\n', 'not-tls'],
    ['EHLO a.test\r\n', 'not-tls'],
    ['* OK\r\n', 'not-tls'],
    ['{"a":1}', 'not-tls'],
    ['[1', 'not-tls'],
    ['(', 'not-tls'],
    ['\0', 'not-tls'],
    ['\x01GET / HTTP/1.1', 'http1'],
    ['GET\0/ HTTP/1.1', 'http1'],
    ['GET: / HTTP/1.1', 'http1'],
    ['\xe9 / HTTP/1.1', 'http1'],
    ['\xe9\0\0', 'not-tls'],
    ['NICK a\r\n', 'not-tls'],
    ['GET HTTP\r\n', 'not-tls'],
  ]
  for (const [bytes, kind] of rows) {
    t.equal(readFlight(latin1(bytes)).kind, kind, JSON.stringify(bytes))
  }
})

void tap.test('what bytes are, as records', async (t) => {
  const rows: [title: string, bytes: Buffer, kind: Flight['kind']][] = [
    ['a hello', hello('a.test'), 'tls'],
    ['half a hello', hello('a.test').subarray(0, 30), 'more'],
    ['one byte', Buffer.from([22]), 'more'],
    ['an alert', Buffer.from([21, 3, 3, 0, 2, 1, 0]), 'tls'],
    ['a change of cipher', Buffer.from([20, 3]), 'tls'],
    ['data', Buffer.from([23, 3]), 'tls'],
    ['heartbeat', Buffer.from([24, 3]), 'tls'],
    ['SSL 2', Buffer.from([0x80, 0x2e, 1, 0, 2]), 'tls'],
    ['the first two bytes of SSL 2', Buffer.from([0x80, 0x2e]), 'more'],
    ['a type that is none', Buffer.from([25, 3, 3]), 'not-tls'],
    ['a length, as other protocols begin', Buffer.from([22, 1, 0, 0, 5, 0, 0, 0]), 'not-tls'],
    ['another one', Buffer.from([20, 0, 0, 0]), 'not-tls'],
  ]
  for (const [title, bytes, kind] of rows) t.equal(readFlight(bytes).kind, kind, title)
})

void tap.test(
  'a server may ignore the version of a record, so a hello of any counts',
  async (t) => {
    const policy = policyWith({ rules: ['allowed.test'] })
    const target = targetOf('allowed.test')
    for (const version of [0, 1, 2, 4, 5, 15, 0x7f, 0xff]) {
      for (const serverName of ['evil.test', 'allowed.test']) {
        const bytes = hello(serverName)
        bytes[1] = version
        const flight = readFlight(bytes)
        t.equal(flight.kind, 'tls', `version ${version}`)
        t.equal(judgeFlight(policy, target, flight, NOW).kind, 'refuse', `version ${version}`)
        for (let length = 0; length < 6; length++) {
          t.equal(readFlight(bytes.subarray(0, length)).kind, 'more', `${length} bytes`)
        }
      }
      const warning = Buffer.from([21, version, 3, 0, 2, 1, 90])
      const verdict = judgeFlight(
        policy,
        target,
        readFlight(Buffer.concat([warning, hello('evil.test')])),
        NOW,
      )
      t.equal(verdict.kind, 'refuse', `behind a warning of version ${version}`)
    }
  },
)

void tap.test('what is too long to be told is judged by what it is so far', async (t) => {
  const long = (text: string) => latin1(text.padEnd(MAX_FLIGHT_BYTES, 'a'))
  t.strictSame(readFlight(long('GET /')), { kind: 'incomplete', tls: false })
  t.strictSame(readFlight(latin1(' '.repeat(MAX_FLIGHT_BYTES))), { kind: 'incomplete', tls: false })
  const message = Buffer.alloc(MAX_FLIGHT_BYTES * 2)
  message.writeUInt32BE(0x01007fff)
  const half = records(message).subarray(0, MAX_FLIGHT_BYTES)
  t.strictSame(readFlight(half), { kind: 'incomplete', tls: true })
  t.strictSame(readFlight(half.subarray(0, -1)), { kind: 'more' })
})

void tap.test('byte by byte, no beginning is told wrongly', async (t) => {
  for (const bytes of [
    hello('a.test'),
    records(helloMessage({ serverName: 'a.test' }), 1),
    latin1('GET / HTTP/1.1\r\n'),
    latin1('\r\n GET\t/a HTTP/1.1\r\n'),
    latin1('PRI * HTTP/2.0\r\n'),
  ]) {
    const last = readFlight(bytes)
    for (let length = 0; length < bytes.length; length++) {
      const flight = readFlight(bytes.subarray(0, length))
      if (flight.kind !== 'more') {
        t.equal(flight.kind, last.kind, bytes.toString('latin1', 0, length))
        break
      }
    }
  }
})

void tap.test('16 KiB byte by byte cost little', async (t) => {
  for (const text of ['a', ' ', 'GET /', 'GET ', '\r\n', 'GET \t'] as const) {
    const bytes = latin1(text.repeat(MAX_FLIGHT_BYTES)).subarray(0, MAX_FLIGHT_BYTES)
    const filled = text === 'GET /' ? latin1('GET /'.padEnd(MAX_FLIGHT_BYTES, 'h')) : bytes
    const before = cpuTimeMs()
    for (let length = 1; length < filled.length; length += 4) readFlight(filled.subarray(0, length))
    const spent = cpuTimeMs() - before
    t.ok(spent < 2_000, `${JSON.stringify(text)}: ${spent} ms`)
  }
})

type Column = 'off' | 'report' | 'enforce' | 'require' | 'require, off'
type Outcome = 'pass' | 'refuse' | 'serve-http'

const COLUMNS: Record<Column, Parameters<typeof policyWith>[0]['tls']> = {
  off: { sni: 'off' },
  report: { sni: 'report' },
  enforce: { sni: 'enforce' },
  require: { sni: 'enforce', require: true },
  'require, off': { sni: 'off', require: true },
}

const ECH = { extensions: [echExtension()] }

/** Rows of the table in docs/proxy.md: what becomes of a flight in each column, and what is noted where it passes. */
const JUDGED: [title: string, flight: Flight | Buffer, outcomes: Outcome[], note: object][] = [
  ['the name itself', hello('allowed.test'), ['pass', 'pass', 'pass', 'pass', 'pass'], {}],
  ['in another case', hello('ALLOWED.Test'), ['pass', 'pass', 'pass', 'pass', 'pass'], {}],
  ['with the root dot', hello('allowed.test.'), ['pass', 'pass', 'pass', 'pass', 'pass'], {}],
  ['another allowed name', hello('other.test'), ['pass', 'pass', 'pass', 'pass', 'pass'], {}],
  [
    'a name that is allowed on another port',
    hello('port.test'),
    ['pass', 'pass', 'refuse', 'refuse', 'refuse'],
    { tls: 'other-sni', sni: 'port.test' },
  ],
  [
    'an excluded name',
    hello('not.other.test'),
    ['pass', 'pass', 'refuse', 'refuse', 'refuse'],
    { tls: 'other-sni' },
  ],
  [
    'a name nobody allows',
    hello('evil.test'),
    ['pass', 'pass', 'refuse', 'refuse', 'refuse'],
    { tls: 'other-sni', sni: 'evil.test' },
  ],
  [
    'an address',
    hello('192.0.2.9'),
    ['pass', 'pass', 'refuse', 'refuse', 'refuse'],
    { tls: 'other-sni' },
  ],
  [
    'an address that a rule allows',
    hello('8.8.8.8'),
    ['pass', 'pass', 'refuse', 'refuse', 'refuse'],
    { tls: 'other-sni' },
  ],
  [
    'no name of a host',
    hello('allowed.test\0.evil.test'),
    ['pass', 'pass', 'refuse', 'refuse', 'refuse'],
    { tls: 'other-sni', sni: 'allowed.test?.evil.test' },
  ],
  ['no name', hello(), ['pass', 'pass', 'pass', 'refuse', 'refuse'], { tls: 'no-sni' }],
  [
    'ECH under the right name',
    hello('allowed.test', ECH),
    ['pass', 'pass', 'pass', 'pass', 'pass'],
    { ech: true },
  ],
  [
    'ECH under another name',
    hello('public.test', ECH),
    ['pass', 'pass', 'refuse', 'refuse', 'refuse'],
    { tls: 'other-sni', ech: true },
  ],
  [
    'ECH without a name',
    hello(undefined, ECH),
    ['pass', 'pass', 'pass', 'refuse', 'refuse'],
    { tls: 'no-sni', ech: true },
  ],
  [
    'what cannot be read',
    Buffer.from([22, 3, 1, 0, 0]),
    ['pass', 'pass', 'refuse', 'refuse', 'refuse'],
    { tls: 'unparsable' },
  ],
  [
    'an incomplete hello',
    { kind: 'incomplete', tls: true },
    ['pass', 'pass', 'refuse', 'refuse', 'refuse'],
    { tls: 'incomplete' },
  ],
  [
    'incomplete text',
    { kind: 'incomplete', tls: false },
    ['pass', 'pass', 'refuse', 'refuse', 'refuse'],
    { tls: 'incomplete' },
  ],
  ['neither TLS nor HTTP', latin1('SSH-2\n'), ['pass', 'pass', 'pass', 'refuse', 'refuse'], {}],
  ['HTTP/2', latin1('PRI * HTTP/2.0\r\n'), ['pass', 'pass', 'refuse', 'refuse', 'refuse'], {}],
  [
    'HTTP/1',
    latin1('GET / HTTP/1.1\r\n'),
    ['serve-http', 'serve-http', 'serve-http', 'serve-http', 'serve-http'],
    {},
  ],
]

void tap.test('the table of flights on port 443', async (t) => {
  const rules = ['allowed.test', '*.other.test', 'other.test', '!not.other.test', 'port.test:8443']
  for (const [column, tls] of Object.entries(COLUMNS)) {
    const policy = policyWith({ rules: [...rules, '8.8.8.8'], ...(tls && { tls }) })
    for (const [title, given, outcomes, note] of JUDGED) {
      const flight = Buffer.isBuffer(given) ? readFlight(given) : given
      const verdict = judgeFlight(policy, targetOf('allowed.test'), flight, NOW)
      const place = Object.keys(COLUMNS).indexOf(column)
      t.equal(verdict.kind, outcomes[place], `${title}, ${column}`)
      if (verdict.kind === 'pass' && tls?.sni !== 'off') t.match(verdict.note, note, title)
      if (verdict.kind === 'pass' && tls?.sni === 'off') t.strictSame(verdict.note, {}, title)
      if (verdict.kind === 'refuse') {
        t.equal(
          verdict.alert !== undefined,
          flight.kind === 'tls' || title === 'an incomplete hello',
        )
        t.match(verdict.why, /^[ -~]+$/)
      }
    }
  }
})

void tap.test('TLS is only required on port 443; HTTP/2 in clear is refused on any', async (t) => {
  const policy = policyWith({ rules: ['allowed.test:*'], tls: { require: true } })
  const target = targetOf('allowed.test:22')
  const judge = (text: string) => judgeFlight(policy, target, readFlight(latin1(text)), NOW).kind
  t.equal(judge('SSH-2.0-x\r\n'), 'pass')
  t.equal(judge('PRI * HTTP/2.0\r\n'), 'refuse')
})

void tap.test('what is not known is refused', async (t) => {
  const policy = policyWith({ tls: { sni: 'off' } })
  const flight = { kind: 'quic' } as unknown as Flight
  t.equal(judgeFlight(policy, targetOf('allowed.test'), flight, NOW).kind, 'refuse')
})

void tap.test('an alert is one fatal record', async (t) => {
  t.strictSame(tlsAlert(112), Buffer.from([21, 3, 3, 0, 2, 2, 112]))
})
