import tap from 'tap'
import { type Cidr, formatIp, parseIpv4, parseIpv6 } from '../../src/policy/address.ts'
import { stubAddress, SyntheticNames } from '../../src/door/synthetic-names.ts'
import { seeded, seedOf } from '../support/random.ts'
import { SyntheticModel } from '../support/synthetic-model.ts'

function rangeOf(text: string): Cidr {
  const [address = '', bits] = text.split('/')
  const first = parseIpv4(address)
  if (first === undefined) throw new Error(text)
  return { first, bits: Number(bits) }
}

const USUAL = rangeOf('127.64.0.0/10')
const still = () => 0

void tap.test('the stub has the first host of the range', async (t) => {
  t.equal(stubAddress(USUAL), '127.64.0.1')
  t.equal(stubAddress(rangeOf('198.18.0.0/15')), '198.18.0.1')
})

void tap.test('names get addresses in order, and keep them', async (t) => {
  const names = new SyntheticNames(USUAL, still)
  t.equal(names.addressOf('a.test'), '127.64.0.2')
  t.equal(names.addressOf('b.test'), '127.64.0.3')
  t.equal(names.addressOf('a.test'), '127.64.0.2')
  t.equal(names.addressOf('__proto__'), '127.64.0.4')
  t.equal(names.nameOf('127.64.0.3'), 'b.test')
  t.equal(names.nameOf('::ffff:127.64.0.3'), 'b.test', 'as a socket of both families says it')
  for (const none of ['127.64.0.0', '127.64.0.1', '127.64.0.5', '::7f40:3', '::', 'b.test', '']) {
    t.equal(names.nameOf(none), undefined, `no name of ${none}`)
  }
  t.equal(names.size, 3)
})

void tap.test('what lies in the range', async (t) => {
  const names = new SyntheticNames(USUAL, still)
  for (const one of ['127.64.0.0', '127.127.255.255', '::ffff:127.64.0.9'])
    t.ok(names.has(one), one)
  for (const one of ['127.63.255.255', '127.128.0.0', '::1', '127.64.0', 'a.test', '']) {
    t.notOk(names.has(one), one)
  }
})

void tap.test('neither the network, the stub nor the last address is given', async (t) => {
  let now = 0
  const names = new SyntheticNames(rangeOf('10.1.2.240/28'), () => now, { restMs: 10 })
  const given = new Set<string | undefined>()
  for (let i = 0; i < 40; i++, now += 10) given.add(names.addressOf(`n${i}.test`))
  const all = Array.from({ length: 13 }, (_, i) => `10.1.2.${242 + i}`)
  t.strictSame(given, new Set(all))
  t.equal(names.size, 11, 'an eighth of a small range is kept back')
})

void tap.test('ranges with next to nothing in them', async (t) => {
  for (const bits of [32, 31]) {
    const names = new SyntheticNames(rangeOf(`10.1.2.${bits === 32 ? 3 : 2}/${bits}`), still)
    t.equal(names.addressOf('a.test'), undefined)
    t.equal(names.size, 0)
  }
  const one = new SyntheticNames(rangeOf('10.1.2.0/30'), still)
  t.equal(one.addressOf('a.test'), '10.1.2.2')
  t.equal(one.addressOf('b.test'), undefined)
  t.equal(one.addressOf('a.test'), '10.1.2.2', 'nothing was dropped for nothing')
  const six = parseIpv6('fd00::')
  t.ok(six)
  if (six) t.throws(() => new SyntheticNames({ first: six, bits: 64 }, still), /IPv4/)
})

void tap.test('the least recently used name that nobody holds is dropped', async (t) => {
  const names = new SyntheticNames(USUAL, still, { maxNames: 3 })
  for (const name of ['a', 'b', 'c']) names.addressOf(name)
  t.ok(names.hold('a'))
  names.addressOf('b')
  t.equal(names.addressOf('d'), '127.64.0.5')
  t.equal(names.nameOf('127.64.0.4'), undefined, 'c went')
  t.equal(names.nameOf('127.64.0.2'), 'a')
  t.ok(names.hold('a'))
  names.release('a')
  names.addressOf('e')
  names.addressOf('f')
  t.equal(names.nameOf('127.64.0.2'), 'a', 'held once more')
  names.release('a')
  names.addressOf('g')
  t.equal(names.nameOf('127.64.0.2'), 'a', 'a connection that closes is use')
  names.addressOf('h')
  names.addressOf('i')
  t.equal(names.nameOf('127.64.0.2'), undefined)
  t.equal(names.size, 3)
})

void tap.test('what is not there is not held, and what is not held not released', async (t) => {
  const names = new SyntheticNames(USUAL, still, { maxNames: 1 })
  t.notOk(names.hold('a'))
  names.release('a')
  names.addressOf('a')
  names.release('a')
  t.ok(names.hold('a'))
  t.equal(names.addressOf('b'), undefined, 'every name is held')
  names.release('a')
  t.equal(names.addressOf('b'), '127.64.0.3')
})

void tap.test('a dropped address rests', async (t) => {
  let now = 1_000
  const names = new SyntheticNames(rangeOf('10.0.0.0/29'), () => now, { maxNames: 1, restMs: 600 })
  const seen: (string | undefined)[] = []
  for (const name of ['a', 'b', 'c', 'd', 'e', 'f']) seen.push(names.addressOf(name))
  t.strictSame(
    seen,
    [2, 3, 4, 5, 6].map((last) => `10.0.0.${last}`).concat([undefined as unknown as string]),
  )
  t.equal(names.addressOf('e'), '10.0.0.6', 'and nobody was dropped for it')
  now += 599
  t.equal(names.addressOf('f'), undefined)
  now += 1
  t.equal(names.addressOf('f'), '10.0.0.2', 'the one that has rested longest')
})

void tap.test('what rests is bounded, and a wide range is no way round', async (t) => {
  let now = 0
  const names = new SyntheticNames(USUAL, () => now, { maxNames: 10 })
  for (let i = 0; i < 50; i++) t.ok(names.addressOf(`n${i}`), `n${i}`)
  t.equal(names.addressOf('one-more'), undefined, 'ten and four times ten')
  t.equal(names.addressOf('n49'), '127.64.0.51')
  now = 600_000
  t.equal(names.addressOf('one-more'), '127.64.0.2', 'where room is needed, what has rested')
})

void tap.test('100,000 names leave as many as there may be', async (t) => {
  const names = new SyntheticNames(USUAL, still)
  const given = new Set<string | undefined>()
  for (let i = 0; i < 100_000; i++) given.add(names.addressOf(`n${i}.test`))
  t.equal(names.size, 65_536)
  t.equal(given.size, 100_000, 'each its own address')
  t.notOk(given.has(undefined))
})

void tap.test('it does what the plain model does', async (t) => {
  const seed = seedOf(6_107)
  t.comment(`SEED=${seed}`)
  const random = seeded(seed)
  const asked = { none: 0, given: 0 }
  for (let round = 0; round < 300; round++) {
    const bits = 24 + random.below(6)
    const maxNames = 1 + random.below(20)
    const restMs = random.pick([0, 5, 50, 500])
    let now = random.below(100)
    const limits = { maxNames, restMs }
    const names = new SyntheticNames(rangeOf(`10.0.0.0/${bits}`), () => now, limits)
    const first = 10 * 2 ** 24 + 2
    const count = 2 ** (32 - bits) - 3
    const model = new SyntheticModel(first, count, maxNames, restMs)
    const pool = 2 + random.below(40)
    for (let step = 0; step < 300; step++) {
      const name = `n${random.below(pool)}`
      const what = random.below(10)
      if (what < 6) {
        const word = model.addressOf(name, now)
        const wanted = word === undefined ? undefined : formatIp({ family: 4, words: [word] })
        const got = names.addressOf(name)
        if (got !== wanted) t.equal(got, wanted, `round ${round}, step ${step}: ${name}`)
        asked[got === undefined ? 'none' : 'given']++
      } else if (what === 6) {
        if (names.hold(name) !== model.hold(name)) t.fail(`round ${round}: hold of ${name}`)
      } else if (what === 7) {
        names.release(name)
        model.release(name)
      } else now += random.below(8)
    }
    for (let word = first - 2; word <= first + count; word++) {
      const got = names.nameOf(formatIp({ family: 4, words: [word] }))
      if (got !== model.nameOf(word)) t.equal(got, model.nameOf(word), `round ${round}: ${word}`)
    }
    if (names.size !== model.size) t.equal(names.size, model.size, `round ${round}`)
  }
  t.ok(asked.none > 500 && asked.given > 5_000, JSON.stringify(asked))
})
