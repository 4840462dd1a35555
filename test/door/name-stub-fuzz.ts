import tap from 'tap'
import { longName, queryOf } from '../support/dns.ts'
import { openStub } from '../support/name-stub.ts'
import { type Random, seeded, seedOf } from '../support/random.ts'

const ROUNDS = 20_000

const NAMES = [
  'api.example.test',
  'a.wild.test',
  'evil.test',
  'localhost',
  'registry',
  '.',
  '2.0.64.127.in-addr.arpa',
  longName(253),
  longName(254),
]

function wellFormed(random: Random): Buffer {
  const edns = random.chance(50) ? { edns: random.below(65_536) } : {}
  const type = random.pick([1, 28, 12, 65, 64, 41, 255])
  return queryOf({ name: random.pick(NAMES), type, id: random.below(65_536), ...edns })
}

/** A query that is broken in one of several ways, or never was one. */
function hostile(random: Random): Buffer {
  const bytes = wellFormed(random)
  const kind = random.below(5)
  if (kind === 0) return bytes.subarray(0, random.below(bytes.length + 1))
  if (kind === 1)
    return Buffer.from(Array.from({ length: random.below(600) }, () => random.below(256)))
  if (kind === 2) {
    // Behind a good header everything is random, pointers above all.
    for (let at = 12; at < bytes.length; at++) {
      bytes[at] = random.chance(30)
        ? 0xc0 + random.below(2)
        : random.below(random.pick([8, 64, 256]))
    }
    return bytes
  }
  const flips = 1 + random.below(8)
  // Mostly behind the flags, so that it does not become an answer.
  for (let i = 0; i < flips; i++) {
    bytes[kind === 3 ? random.below(bytes.length) : 4 + random.below(bytes.length - 4)] =
      random.pick([0, 1, 12, 0x2e, 0x3f, 0x40, 0x80, 0xc0, 0xff, random.below(256)])
  }
  return random.chance(20) ? Buffer.concat([bytes, bytes.subarray(12)]) : bytes
}

void tap.test(`${ROUNDS} broken messages`, async (t) => {
  const seed = seedOf(20_731)
  t.comment(`SEED=${seed}`)
  const random = seeded(seed)
  const { stub, names, asked } = openStub()
  const seen = { none: 0, answered: 0 }
  const rcodes = new Set<number>()
  for (let i = 0; i < ROUNDS; i++) {
    const bytes = hostile(random)
    const copy = Buffer.from(bytes)
    const before = { size: names.size, asked: asked.length }
    for (const [answer, most] of [
      [stub.answerDatagram(bytes), 1_232],
      [stub.answerStream(bytes), 65_535],
    ] as const) {
      const mayAnswer = bytes.length >= 12 && bytes.readUInt8(2) < 0x80
      const rcode = answer === undefined ? 16 : answer.readUInt8(3) & 0xf
      const isRight =
        answer === undefined
          ? !mayAnswer
          : mayAnswer &&
            answer.length >= 12 &&
            answer.length <= Math.min(most, 512) &&
            answer.readUInt16BE(0) === bytes.readUInt16BE(0) &&
            answer.readUInt8(2) >= 0x80 &&
            rcode <= 5
      if (!isRight)
        t.fail(`round ${i}: ${bytes.toString('hex')} is answered ${answer?.toString('hex')}`)
      rcodes.add(rcode)
      seen[answer === undefined ? 'none' : 'answered']++
      // What is faulty, or of another class, has no part in the table.
      const isUnchanged = names.size === before.size && asked.length === before.asked
      if ([1, 4, 5, 16].includes(rcode) && !isUnchanged) t.fail(`round ${i}: the table changed`)
    }
    if (!bytes.equals(copy)) t.fail(`round ${i}: the query was written to`)
  }
  t.ok(seen.none > 500 && seen.answered > 20_000, JSON.stringify(seen))
  t.strictSame(rcodes, new Set([0, 1, 3, 4, 5, 16]), 'every way out was taken')
  t.ok(names.size < 100, `${names.size} names, all of them allowed`)
})
