import tap from 'tap'
import { type Flow, PIECES } from '../support/byte-stream.ts'
import { openBareRelay, openProxyRelay } from '../support/relay-lines.ts'
import { exchangeOver, loadEarly, loadHeld, loadMixed, loadTorn } from '../support/relay-load.ts'

const KIB = 1024
const MIB = 1024 * KIB

/** Where a reader of the relay may change what it does, and a byte to either side. */
const SIZES = [
  0,
  1,
  ...[16, 32, 64, 256].flatMap((kib) => [kib * KIB - 1, kib * KIB, kib * KIB + 1]),
  MIB,
  16 * MIB,
]

for (const openRelay of [openBareRelay, openProxyRelay]) {
  const name = openRelay === openBareRelay ? 'lanes' : 'a proxy'

  void tap.test(`${name}: every size, both ways at once, whole and in pieces`, async (t) => {
    const relay = await openRelay(t)
    let stream = 100
    for (const pieces of ['whole', ...PIECES] as const) {
      for (const size of SIZES.filter((one) => pieces !== 'small' || one < MIB)) {
        const up: Flow = { stream: stream++, size, pieces }
        const down: Flow = { stream: stream++, size, pieces }
        const problems = await exchangeOver(await relay.open(), { up, down })
        t.strictSame(problems, [], `${size} bytes, ${pieces}`)
      }
    }
  })

  void tap.test(`${name}: one side much, the other one nothing or little`, async (t) => {
    const relay = await openRelay(t)
    const flows: Flow[] = [
      { stream: 1, size: 8 * MIB, reading: 'slow' },
      { stream: 2, size: 0 },
      { stream: 3, size: 8 * MIB, pieces: 'odd', reading: 'stopping' },
      { stream: 4, size: 40_000, pieces: 'small' },
    ]
    const [much, nothing, odd, little] = flows as [Flow, Flow, Flow, Flow]
    for (const [up, down] of [
      [much, nothing],
      [nothing, much],
      [odd, little],
      [little, odd],
    ] as const) {
      t.strictSame(await exchangeOver(await relay.open(), { up, down }), [])
    }
  })

  void tap.test(`${name}: every kind of writer and reader at a time`, async (t) => {
    t.strictSame(await loadMixed(await openRelay(t), 16, 20_000_000), [])
  })
}

void tap.test('64 tunnels at a time, with other bytes in each', async (t) => {
  t.strictSame(await loadMixed(await openProxyRelay(t), 64, 3_000_000), [])
})

void tap.test('bytes that come with a CONNECT, and before its answer, are kept', async (t) => {
  t.strictSame(await loadEarly(await openProxyRelay(t), 64), [])
})

void tap.test('pieces at which a relay changes how it reads, while writes wait', async (t) => {
  t.strictSame(await loadHeld(await openBareRelay(t), 24, 'turning'), [])
})

void tap.test('what was read arrives as it was, though its source is gone', async (t) => {
  t.strictSame(await loadTorn(await openBareRelay(t, { isTied: false }), 60), [])
})

void tap.test('256 MiB in one tunnel, and a trickle the other way', async (t) => {
  const relay = await openProxyRelay(t)
  const down: Flow = { stream: 1, size: 256 * MIB, pieces: 'mixed' }
  const up: Flow = { stream: 2, size: 200_000, pieces: 'small' }
  t.strictSame(await exchangeOver(await relay.open(), { up, down }), [])
})
