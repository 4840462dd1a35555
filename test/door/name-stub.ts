import tap from 'tap'
import { createNameStub } from '../../src/door/name-stub.ts'
import { labelsOf, longName, queryOf, readAnswer, words } from '../support/dns.ts'
import { openStub } from '../support/name-stub.ts'
import { seeded, seedOf } from '../support/random.ts'

const A = 1
const AAAA = 28
const OTHERS = [2, 5, 6, 12, 15, 16, 33, 41, 64, 65, 251, 252, 255, 0, 65_535]

void tap.test('an allowed name has an A record, and no other', async (t) => {
  const { ask, names, denied } = openStub()
  for (const type of [AAAA, ...OTHERS]) {
    const { rcode, answers, packet } = ask({ name: 'api.example.test', type })
    t.strictSame({ rcode, answers }, { rcode: 0, answers: [] }, `type ${type}`)
    t.match(packet.authorities, [{ type: 'SOA', ttl: 5 }])
  }
  t.equal(names.size, 0, 'none of these needs an address')
  const { id, rcode, flags, packet } = ask({ name: 'api.example.test', id: 0xcafe })
  t.strictSame({ id, rcode, flags }, { id: 0xcafe, rcode: 0, flags: 0x8180 })
  t.match(packet.answers, [{ type: 'A', data: '127.64.0.2', ttl: 5, name: 'api.example.test' }])
  t.strictSame(ask({ name: 'x.wild.test' }).answers, ['A 127.64.0.3'])
  t.strictSame(ask({ name: 'api.example.test' }).answers, ['A 127.64.0.2'])
  t.strictSame(denied, [])
})

void tap.test('the case of a question comes back, and says nothing', async (t) => {
  const { stub, names, asked } = openStub()
  const query = queryOf({ name: 'aPi.EXAmple.tEsT' })
  const answer = stub.answerDatagram(query)
  t.ok(answer?.subarray(12, query.length).equals(query.subarray(12)))
  t.equal(readAnswer(answer).packet.answers?.[0]?.name, 'aPi.EXAmple.tEsT')
  t.equal(names.nameOf('127.64.0.2'), 'api.example.test')
  stub.answerDatagram(queryOf({ name: 'API.example.test' }))
  t.equal(names.size, 1)
  t.strictSame(asked, ['api.example.test', 'api.example.test'])
})

void tap.test('a denied name is not there, and one look-up is one event', async (t) => {
  const { ask, denied, names, clock } = openStub()
  for (const type of [A, AAAA, 65]) {
    const { rcode, packet } = ask({ name: 'Evil.test', type })
    t.equal(rcode, 3)
    t.match(packet.authorities, [{ type: 'SOA' }])
  }
  t.strictSame(denied, ['evil.test'])
  ask({ name: 'evil.TEST', type: A })
  t.strictSame(denied, ['evil.test', 'evil.test'], 'asked again')
  ask({ name: 'evil.test', type: AAAA })
  t.equal(denied.length, 2)
  clock.now += 2_000
  ask({ name: 'evil.test', type: 65 })
  t.equal(denied.length, 3)
  t.equal(names.size, 0)
})

void tap.test('services of an allowed name are nobody else, and have no records', async (t) => {
  const { ask, denied, names } = openStub()
  const services = ['_x.api.example.test', '_443._https._TCP.api.example.test']
  for (const name of services) {
    for (const type of OTHERS) t.equal(ask({ name, type }).rcode, 0, `${name} ${type}`)
  }
  t.strictSame(denied, [])
  for (const name of services) {
    for (const type of [A, AAAA]) t.equal(ask({ name, type }).rcode, 3, `${name} ${type}`)
  }
  const lower = services.map((name) => name.toLowerCase())
  t.strictSame(denied, lower)
  const others = ['x._tcp.api.example.test', '_x.evil.test', '_x._tcp']
  for (const name of others) t.equal(ask({ name, type: 33 }).rcode, 3, name)
  t.strictSame(denied, [...lower, ...others])
  t.equal(names.size, 0)
})

void tap.test('names without a dot are denied without an event', async (t) => {
  const { ask, denied } = openStub()
  t.equal(ask({ name: 'printer' }).rcode, 3)
  t.equal(ask({ name: 'wpad' }).rcode, 3)
  t.strictSame(ask({ name: 'registry' }).answers, ['A 127.64.0.2'], 'the policy allows it')
  t.strictSame(denied, [])
})

void tap.test('names of the sandbox itself', async (t) => {
  const { ask, denied, asked, names } = openStub()
  for (const name of ['localhost', 'LocalHost', 'a.localhost', 'x.y.localhost']) {
    t.strictSame(ask({ name }).answers, ['A 127.0.0.1'], name)
    t.strictSame(ask({ name, type: AAAA }).answers, ['AAAA ::1'], name)
    for (const type of OTHERS) t.match(ask({ name, type }), { rcode: 0, answers: [] }, name)
  }
  t.strictSame(ask({ name: 'box' }).answers, ['A 127.0.0.1'])
  t.match(ask({ name: 'BOX', type: AAAA }), { rcode: 0, answers: { length: 0 } })
  t.equal(ask({ name: 'mylocalhost' }).rcode, 3)
  t.equal(ask({ name: 'localhost.evil.test' }).rcode, 3)
  t.strictSame(denied, ['localhost.evil.test'])
  t.strictSame(asked, ['mylocalhost', 'localhost.evil.test'])
  t.equal(names.size, 0)
})

void tap.test('without a name of its own a sandbox has none', async (t) => {
  const { names } = openStub()
  const setup = { names, mayReach: () => false, onDenied: () => undefined, now: () => 0 }
  const rcodes = [{}, { hostname: '' }, { hostname: '123456789012' }].map((more) => {
    const stub = createNameStub({ ...setup, ...more })
    return readAnswer(stub.answerDatagram(queryOf({ name: 'box' }))).rcode
  })
  t.strictSame(rcodes, [3, 3, 3])
})

void tap.test('reverse look-ups', async (t) => {
  const { ask, denied, asked } = openStub()
  ask({ name: 'x.wild.test' })
  const before = asked.length
  const ip6 = (tail: string) => `${tail}${'0.'.repeat(32 - tail.length / 2)}ip6.arpa`
  const rows: [name: string, answer: string | undefined][] = [
    ['2.0.64.127.in-addr.arpa', 'PTR x.wild.test'],
    ['2.0.64.127.IN-ADDR.arpa', 'PTR x.wild.test'],
    ['1.0.0.127.in-addr.arpa', 'PTR localhost'],
    [ip6('1.'), 'PTR localhost'],
    ['3.0.64.127.in-addr.arpa', undefined],
    ['1.0.64.127.in-addr.arpa', undefined],
    ['2.0.64.in-addr.arpa', undefined],
    ['02.0.64.127.in-addr.arpa', undefined],
    ['0.2.0.64.127.in-addr.arpa', undefined],
    ['x.2.0.64.127.in-addr.arpa', undefined],
    ['8.8.8.8.in-addr.arpa', undefined],
    ['in-addr.arpa', undefined],
    ['ip6.arpa', undefined],
    [ip6('2.'), undefined],
    [ip6('1.0.0.').replace('0.', ''), undefined],
  ]
  for (const [name, answer] of rows) {
    const { rcode, answers } = ask({ name, type: 12 })
    t.strictSame(answers, answer === undefined ? [] : [answer], name)
    t.equal(rcode, answer === undefined ? 3 : 0, name)
  }
  t.match(ask({ name: '2.0.64.127.in-addr.arpa', type: A }), { rcode: 0, answers: { length: 0 } })
  t.equal(ask({ name: '8.8.8.8.in-addr.arpa', type: A }).rcode, 3)
  t.strictSame(denied, [])
  t.equal(asked.length, before, 'the policy is not asked')
  t.equal(ask({ name: 'home.arpa' }).rcode, 3)
  t.equal(ask({ name: 'xin-addr.arpa' }).rcode, 3)
  t.strictSame(denied, ['home.arpa', 'xin-addr.arpa'], 'these are names like any other')
})

void tap.test('what can be no host is not there, without an event', async (t) => {
  const { ask, stub, denied, asked, names } = openStub()
  const rows = [
    '127.0.0.1',
    '10.1',
    '0x7f.1',
    'a.1',
    'a b.wild.test',
    '*.wild.test',
    'a%.wild.test',
    'a/b.wild.test',
    'xn--a.wild.test',
    'caf\u00E9.wild.test',
    '\u212A.wild.test',
    '[::1]',
    'x\0.wild.test',
    '_dmarc.8',
  ]
  for (const name of rows) {
    const labels = Buffer.concat(
      name.split('.').flatMap((label) => {
        const bytes = Buffer.from(label)
        return [Buffer.of(bytes.length), bytes]
      }),
    )
    const query = Buffer.concat([words(1, 0x0100, 1, 0, 0, 0), labels, Buffer.of(0), words(A, 1)])
    const answer = stub.answerDatagram(query)
    t.equal(readAnswer(answer).rcode, 3, JSON.stringify(name))
    t.ok(answer?.subarray(12, query.length).equals(query.subarray(12)), 'the question comes back')
  }
  const dotted = Buffer.concat([
    Buffer.of(8),
    Buffer.from('api.wild'),
    labelsOf('test'),
    words(A, 1),
  ])
  const whole = Buffer.concat([words(1, 0x0100, 1, 0, 0, 0), dotted])
  t.equal(readAnswer(stub.answerDatagram(whole)).rcode, 3, 'a dot within a label')
  for (const type of [A, 2, 6]) {
    t.match(ask({ name: '.', type }), { rcode: 0, answers: { length: 0 } }, 'the root is there')
  }
  t.strictSame({ denied, asked, size: names.size }, { denied: [], asked: [], size: 0 })
})

void tap.test('names of 253 octets and of 254', async (t) => {
  const { ask, stub, names, denied } = openStub()
  const long = ask({ name: longName(253) })
  t.strictSame(long.answers, ['A 127.64.0.2'])
  t.notOk(long.isCut)
  t.equal(names.nameOf('127.64.0.2'), longName(253))
  const evil = `b${longName(253).slice(1)}`
  t.equal(ask({ name: evil }).rcode, 3)
  t.strictSame(denied, [evil])
  const tooLong = stub.answerDatagram(queryOf({ name: longName(254) }))
  t.equal(readAnswer(tooLong).rcode, 1)
  t.equal(tooLong?.length, 12)
})

void tap.test('other classes are refused', async (t) => {
  const { ask, denied, names } = openStub()
  for (const asked of [0, 3, 4, 254, 255, 0x8001]) {
    for (const name of ['api.example.test', 'evil.test', 'localhost', 'version.bind']) {
      t.equal(ask({ name, class: asked }).rcode, 5, `${name} in class ${asked}`)
    }
  }
  t.strictSame({ denied, size: names.size }, { denied: [], size: 0 })
})

void tap.test('messages that are no question', async (t) => {
  const { ask, stub, denied, names } = openStub()
  const name = 'api.example.test'
  for (let opcode = 1; opcode < 16; opcode++) {
    const bytes = queryOf({ name, flags: opcode << 11, id: 9 }).subarray(0, 20)
    const { id, rcode, flags } = readAnswer(stub.answerDatagram(bytes))
    t.strictSame({ id, rcode, flags }, { id: 9, rcode: 4, flags: 0x8080 | (opcode << 11) })
  }
  t.match(ask({ name, edns: 512, ednsVersion: 1 }), { rcode: 0, answers: { length: 0 } })
  const whole = queryOf({ name, id: 9, edns: 512 })
  for (let length = 0; length < whole.length; length++) {
    const cut = whole.subarray(0, length)
    for (const bytes of [stub.answerDatagram(cut), stub.answerStream(cut)]) {
      if (length < 12) t.equal(bytes, undefined, `${length} octets`)
      else t.match(readAnswer(bytes), { id: 9, rcode: 1 }, `${length} octets`)
    }
  }
  t.equal(stub.answerDatagram(queryOf({ name, flags: 0x8000 })), undefined)
  t.equal(stub.answerStream(queryOf({ name, flags: 0x8000 })), undefined)
  t.strictSame({ denied, size: names.size }, { denied: [], size: 0 })
})

void tap.test('when no address is left the stub says so', async (t) => {
  const { ask, names } = openStub({ maxNames: 1 })
  ask({ name: 'a.wild.test' })
  names.hold('a.wild.test')
  const { rcode, answers, packet } = ask({ name: 'b.wild.test' })
  t.strictSame({ rcode, answers }, { rcode: 2, answers: [] })
  t.equal(packet.authorities?.length, 0, 'not to be kept')
  names.release('a.wild.test')
  t.strictSame(ask({ name: 'b.wild.test' }).answers, ['A 127.64.0.3'])
})

void tap.test('100,000 look-ups of denied names, and of allowed ones', async (t) => {
  const seed = seedOf(100)
  t.comment(`SEED=${seed}`)
  const random = seeded(seed)
  let calls = 0
  const { names } = openStub()
  const stub = createNameStub({
    names,
    mayReach: ({ name }) => name.endsWith('.wild.test'),
    onDenied: () => calls++,
    now: () => 0,
  })
  const many = (zone: string) => {
    for (let i = 0; i < 100_000; i++) {
      stub.answerDatagram(queryOf({ name: `${random.word().toString(36)}-${i}.${zone}` }))
    }
  }
  many('evil.test')
  t.equal(calls, 100_000)
  t.equal(names.size, 0, 'a denied name leaves nothing')
  many('wild.test')
  t.equal(names.size, 65_536)
  t.equal(calls, 100_000)
})
