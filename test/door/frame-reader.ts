import tap from 'tap'
import { FrameReader, writeFrame } from '../../src/door/frame-reader.ts'
import { seeded, seedOf } from '../support/random.ts'

void tap.test('frames are the same however they are cut', async (t) => {
  const seed = seedOf(42)
  t.comment(`SEED=${seed}`)
  const random = seeded(seed)
  for (let round = 0; round < 200; round++) {
    const frames = Array.from({ length: random.below(8) }, () =>
      Buffer.alloc(random.pick([0, 1, 2, 5, 300, 65_535]), random.below(256)),
    )
    const all = Buffer.concat(frames.map(writeFrame))
    const reader = new FrameReader()
    const seen: Buffer[] = []
    for (let at = 0; at < all.length;) {
      const step = 1 + random.below(random.pick([1, 3, 70_000]))
      reader.push(all.subarray(at, at + step))
      at += step
      for (let one = reader.next(); one; one = reader.next()) seen.push(one)
    }
    const isSame = Buffer.concat(seen.map(writeFrame)).equals(all)
    if (!isSame || seen.length !== frames.length) t.fail(`round ${round}`)
  }
  t.pass('200 streams')
})

void tap.test('the length is known before the frame is there', async (t) => {
  const reader = new FrameReader()
  t.equal(reader.nextLength(), undefined)
  reader.push(Buffer.of(0x12))
  t.equal(reader.nextLength(), undefined)
  reader.push(Buffer.of(0x34))
  t.equal(reader.nextLength(), 0x1234)
  t.equal(reader.next(), undefined)
})
