import tap from 'tap'
import { formatGoDuration, parseGoDuration } from '../../src/sandbox/duration.ts'

// The rows are those of Go's own test of time.ParseDuration, and what the knobs are likely to be given.
const GOOD: [text: string, ms: number][] = [
  ['0', 0],
  ['+0', 0],
  ['-0', 0],
  ['0s', 0],
  ['5s', 5_000],
  ['+5s', 5_000],
  ['-5s', -5_000],
  ['5.0s', 5_000],
  ['5.6s', 5_600],
  ['5.s', 5_000],
  ['.5s', 500],
  ['1.004s', 1_004],
  ['100.00100s', 100_001],
  ['10ns', 0.00001],
  ['11us', 0.011],
  ['12\u00b5s', 0.012],
  ['12\u03bcs', 0.012],
  ['13ms', 13],
  ['300ms', 300],
  ['14s', 14_000],
  ['15m', 900_000],
  ['16h', 57_600_000],
  ['3h30m', 12_600_000],
  ['1h30m', 5_400_000],
  ['10.5s4m', 250_500],
  ['-2m3.4s', -123_400],
  ['1h2m3s4ms5us6ns', 3_723_004.005006],
  ['39h9m14.425s', 140_954_425],
  ['0.3333333333333333333h', 1_200_000],
  ['0.1ns', 0],
  ['9223372036854775807ns', 2 ** 63 / 1e6],
  ['-9223372036854775808ns', -(2 ** 63) / 1e6],
  ['0000000000000000000000005s', 5_000],
]

const BAD: string[] = [
  '',
  '5',
  '3',
  '-',
  '+',
  's',
  '.',
  '-.',
  '.s',
  '+.s',
  '1d',
  'abc',
  '1 m',
  ' 1m',
  '1m ',
  '1m\n',
  '\u0085\u0085',
  '\uffff',
  'hello \uffff world',
  '--1m',
  '+-1m',
  '1h-30m',
  '1M',
  '1.5',
  '1..5s',
  '1e3s',
  '0x1s',
  '1_0s',
  '\u0661s',
  '00',
  '9223372036854775808ns',
  '-9223372036854775809ns',
  '9223372036854775.808us',
  '3000000h',
  '9'.repeat(400) + 's',
]

void tap.test('what Go reads is read as Go reads it', async (t) => {
  for (const [text, ms] of GOOD) {
    const read = parseGoDuration(text)
    t.ok(
      read !== undefined && Math.abs(read - ms) <= 1e-9 + 1e-12 * Math.abs(ms),
      `${text} is ${read}, ${ms} expected`,
    )
  }
})

void tap.test('what Go refuses is refused', async (t) => {
  for (const text of BAD) t.equal(parseGoDuration(text), undefined, JSON.stringify(text))
})

void tap.test('a duration is written in its shortest form', async (t) => {
  const table: [ms: number, text: string][] = [
    [0, '0s'],
    [300, '300ms'],
    [0.5, '0.5ms'],
    [1_500, '1.5s'],
    [30_000, '30s'],
    [600_000, '10m'],
    [5_400_000, '1h30m'],
    [86_400_000, '24h'],
    [3_600_500, '1h0.5s'],
    [-60_000, '-1m'],
  ]
  for (const [ms, text] of table) {
    t.equal(formatGoDuration(ms), text)
    t.equal(parseGoDuration(text), ms, `${text} is read again`)
  }
})
