import tap from 'tap'
import {
  decodePreamble,
  encodePreamble,
  formatLine,
  LineReader,
  parseLine,
  type Preamble,
  PREAMBLE_BYTES,
  type RelayLine,
  type RelayOrder,
} from '../../src/door/relay-wire.ts'

const CARRIED: Preamble = { kind: 'carried', id: 7, address: '127.0.0.1', port: 3128 }

void tap.test('a preamble is read as it was written', async (t) => {
  const rows: readonly Preamble[] = [
    { kind: 'control' },
    { kind: 'framed' },
    CARRIED,
    { kind: 'carried', id: 2 ** 32 - 1, address: '::1', port: 65_535 },
    { kind: 'carried', id: 0, address: 'ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255', port: 1 },
  ]
  for (const row of rows) {
    const bytes = encodePreamble(row)
    t.equal(bytes.length, PREAMBLE_BYTES)
    t.strictSame(decodePreamble(bytes), row)
  }
})

void tap.test('what is no preamble is none', async (t) => {
  const changed = (offset: number, value: number, of: Preamble = CARRIED) => {
    const bytes = encodePreamble(of)
    bytes[offset] = value
    return bytes
  }
  const rows: [what: string, bytes: Buffer][] = [
    ['nothing', Buffer.alloc(0)],
    ['zeros', Buffer.alloc(PREAMBLE_BYTES)],
    ['too short', encodePreamble(CARRIED).subarray(1)],
    ['too long', Buffer.concat([encodePreamble(CARRIED), Buffer.alloc(1)])],
    ['HTTP', Buffer.from('GET / HTTP/1.1\r\n'.padEnd(PREAMBLE_BYTES))],
    ['another magic', changed(1, 0)],
    ['another version', changed(2, 2)],
    ['another kind', changed(3, 3)],
    ['frames with more', changed(3, 2)],
    ['control with more', changed(9, 1, { kind: 'control' })],
    ['an address too short', changed(10, 8)],
    ['an address too long', changed(10, 255)],
    ['an address that is none', changed(11, 0x78)],
    ['something behind the address', changed(PREAMBLE_BYTES - 1, 1)],
    ['port 0', encodePreamble({ kind: 'carried', id: 1, address: '::1', port: 0 })],
    ['no address', encodePreamble({ kind: 'carried', id: 1, address: '', port: 1 })],
  ]
  for (const [what, bytes] of rows) t.equal(decodePreamble(bytes), undefined, what)
})

void tap.test('a line is read as it was written', async (t) => {
  const rows: readonly (RelayLine | RelayOrder)[] = [
    { kind: 'listening', text: '' },
    { kind: 'listening', text: 'there is no ip' },
    { kind: 'probe' },
    { kind: 'probed', text: '' },
    { kind: 'probed', text: 'it has a route by eth0' },
    { kind: 'fault', text: 'listen EADDRINUSE' },
    { kind: 'reset', id: 4_294_967_295 },
    { kind: 'closed', id: 7 },
  ]
  for (const row of rows) t.strictSame(parseLine(formatLine(row).slice(0, -1)), row)
  t.equal(formatLine({ kind: 'fault', text: 'two\nlines\r\n' }), 'fault two lines \n')
  const long = formatLine({ kind: 'fault', text: 'x'.repeat(9_999) })
  t.ok(new LineReader().push(Buffer.from(long)), 'no line is too long for the other side')
  for (const none of [
    '',
    'reset',
    'reset x',
    'reset -1',
    'reset 1 2',
    'closed',
    'closed 1x',
    'listening',
    'fault',
  ])
    t.equal(parseLine(none), undefined, none)
})

void tap.test('lines come in pieces of any size, and are bounded', async (t) => {
  const reader = new LineReader()
  t.strictSame(reader.push(Buffer.from('a')), [])
  t.strictSame(reader.push(Buffer.from('b\nc\n\nd')), ['ab', 'c', ''])
  t.strictSame(reader.push(Buffer.from('\n')), ['d'])
  t.equal(reader.push(Buffer.alloc(1_025, 'x')), undefined)
  t.equal(new LineReader().push(Buffer.from(`${'x'.repeat(1_025)}\n`)), undefined)
})
