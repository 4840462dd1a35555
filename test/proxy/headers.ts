import tap from 'tap'
import {
  endToEndFields,
  fieldPairs,
  hasToken,
  isLoop,
  passableTrailers,
  viaEntry,
} from '../../src/proxy/headers.ts'
import { incoming } from '../support/incoming.ts'

const raw = (...lines: string[]) => incoming({ fields: lines }).rawHeaders

void tap.test('fields go on in order, as they are spelt, repeated ones too', async (t) => {
  const fields = raw('B: 1', 'a: 2', 'B: 3', 'Set-Cookie: x', 'set-cookie: y')
  t.strictSame(endToEndFields(fields), fields)
  t.strictSame([...fieldPairs(['A', '1', 'B'])], [['A', '1']], 'half a pair is none')
  t.strictSame(endToEndFields([]), [])
})

void tap.test('fields of one hop end there, in any case', async (t) => {
  const hop = [
    'Connection: close',
    'KEEP-ALIVE: timeout=5',
    'Proxy-Connection: keep-alive',
    'proxy-authenticate: Basic',
    'Proxy-Authentication-Info: x',
    'proxy-AUTHORIZATION: Basic x',
    'TE: trailers',
    'Transfer-Encoding: chunked',
    'Upgrade: h2c',
    'HTTP2-Settings: AAA',
    'Proxy: http://evil.test',
  ]
  t.strictSame(endToEndFields(raw(...hop, 'X: 1')), ['X', '1'])
})

void tap.test('Connection takes away what it names, but no framing and no Host', async (t) => {
  const rows: [connection: string[], kept: string[]][] = [
    [['x-a'], ['Host', 'Content-Length', 'X-B']],
    [['X-A, X-B'], ['Host', 'Content-Length']],
    [
      ['x-a', 'close, x-b'],
      ['Host', 'Content-Length'],
    ],
    [[' ,, x-a ,\t'], ['Host', 'Content-Length', 'X-B']],
    [['Host, Content-Length, Transfer-Encoding'], ['Host', 'Content-Length', 'X-A', 'X-B']],
    [['HOST,CONTENT-LENGTH'], ['Host', 'Content-Length', 'X-A', 'X-B']],
    [[''], ['Host', 'Content-Length', 'X-A', 'X-B']],
    [['"x-a"'], ['Host', 'Content-Length', 'X-A', 'X-B']],
    [['__proto__, constructor'], ['Host', 'Content-Length', 'X-A', 'X-B']],
  ]
  for (const [connection, kept] of rows) {
    const fields = raw(
      'Host: a.test',
      'Content-Length: 1',
      'X-A: 1',
      ...connection.map((value) => `Connection: ${value}`),
      'X-B: 2',
    )
    const names = [...fieldPairs(endToEndFields(fields))].map(([name]) => name)
    t.strictSame(names, kept, JSON.stringify(connection))
  }
})

void tap.test('further names can be left out', async (t) => {
  t.strictSame(endToEndFields(raw('HOST: a', 'Via: b', 'X: c'), ['host', 'via']), ['X', 'c'])
})

void tap.test('trailers: what steers a message is no trailer', async (t) => {
  const never = [
    'Connection',
    'Keep-Alive',
    'Proxy-Authorization',
    'TE',
    'Transfer-Encoding',
    'Upgrade',
    'Host',
    'Content-Length',
    'Content-Encoding',
    'Content-Type',
    'Trailer',
    'Authorization',
    'Cookie',
    'Set-Cookie',
    'Cache-Control',
    'Expect',
    'Max-Forwards',
    'Via',
    'Location',
    'Proxy',
  ]
  const lines = never.flatMap((name) => [`${name}: x`, `${name.toUpperCase()}: y`])
  t.strictSame(passableTrailers(raw(...lines, 'X-Checksum: 1', 'Server-Timing: a'), []), [
    'X-Checksum',
    '1',
    'Server-Timing',
    'a',
  ])
})

void tap.test('Connection in the head takes trailers away too', async (t) => {
  const trailers = raw('X-Secret: 1', 'x-other: 2', 'X-Kept: 3')
  const head = raw('Host: a', 'X-Secret: 0', 'Connection: close, x-secret', 'CONNECTION: X-Other')
  t.strictSame(passableTrailers(trailers, head), ['X-Kept', '3'])
  t.strictSame(passableTrailers(raw('Content-Length: 1'), raw('Connection: content-length')), [])
})

void tap.test('a token is found in any case, among others, on any line', async (t) => {
  t.ok(hasToken(['a, UPGRADE'], 'upgrade'))
  t.ok(hasToken(['x', ' upgrade '], 'upgrade'))
  t.notOk(hasToken(['upgraded', 'up grade'], 'upgrade'))
  t.notOk(hasToken([], 'upgrade'))
})

void tap.test('a loop shows by this name in Via', async (t) => {
  const own = 'iterion-egress-0a1b'
  const loops = [
    [`1.1 ${own}`],
    [`HTTP/1.1 ${own}`],
    [`1.0 other, 1.1 ${own.toUpperCase()} (a comment)`],
    ['1.1 other', `1.1   ${own}`],
    [`1.1\t${own},1.0 x`],
  ]
  for (const values of loops) t.ok(isLoop(values, own), JSON.stringify(values))
  for (const values of [
    [],
    [''],
    ['1.1'],
    [`1.1 ${own}x`],
    [`1.1 other (${own})`],
    ['1.1 other'],
  ]) {
    t.notOk(isLoop(values, own), JSON.stringify(values))
  }
})

void tap.test('a Via entry has the version of the message and this name, no more', async (t) => {
  t.equal(viaEntry(incoming({ httpVersion: '1.0' }), 'me'), '1.0 me')
})
