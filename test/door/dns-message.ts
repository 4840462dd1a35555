import { encode } from 'dns-packet'
import tap from 'tap'
import {
  datagramBytes,
  type DnsQuery,
  type DnsReply,
  RCODE,
  readQuery,
  writeAnswer,
} from '../../src/door/dns-message.ts'
import { labelsOf, longName, queryOf, readAnswer, words } from '../support/dns.ts'

const HEAD = words(7, 0x0100, 1, 0, 0, 0)
const A_IN = words(1, 1)
const NONE: DnsReply = { rcode: RCODE.noSuchName, ttl: 5 }

function read(...parts: readonly Buffer[]): DnsQuery {
  const query = readQuery(Buffer.concat(parts))
  if (query === undefined) throw new Error('no query')
  return query
}

void tap.test('a query is read', async (t) => {
  const bytes = queryOf({ name: 'Api.Example.TEST', type: 28, id: 0xbeef, edns: 4_096 })
  const { id, fault, question, ednsBytes } = read(bytes)
  t.match({ id, fault, ednsBytes }, { id: 0xbeef, fault: undefined, ednsBytes: 4_096 })
  t.match(question, { name: 'Api.Example.TEST', type: 28, class: 1 })
  t.ok(question?.bytes.equals(bytes.subarray(12, 34)))
  const packed = encode({ id: 1, questions: [{ type: 'A', name: 'a.test' }] })
  t.match(read(packed).question, { name: 'a.test', type: 1, class: 1 }, 'as the package writes it')
  t.equal(read(queryOf({ name: '.' })).question?.name, '.')
})

void tap.test('what is not answered at all', async (t) => {
  for (const length of [0, 1, 2, 11]) {
    t.equal(readQuery(queryOf({ name: 'a.test' }).subarray(0, length)), undefined, `${length}`)
  }
  t.equal(readQuery(queryOf({ name: 'a.test', flags: 0x8180 })), undefined, 'an answer')
  t.equal(readQuery(Buffer.alloc(12, 0xff)), undefined)
})

void tap.test('what is answered with a code alone', async (t) => {
  const name = labelsOf('a.test')
  const opt = Buffer.concat([Buffer.of(0), words(41, 512, 0, 0, 0)])
  const rows: [what: string, fault: number, ...bytes: Buffer[]][] = [
    ['another opcode', RCODE.notImplemented, words(7, 0x2100, 1, 0, 0, 0), name, A_IN],
    ['no question', RCODE.malformed, words(7, 0, 0, 0, 0, 0)],
    ['two questions', RCODE.malformed, words(7, 0, 2, 0, 0, 0), name, A_IN, name, A_IN],
    ['65,535 questions', RCODE.malformed, words(7, 0, 65_535, 0, 0, 0), name, A_IN],
    ['nothing behind the header', RCODE.malformed, HEAD],
    ['a name that does not end', RCODE.malformed, HEAD, name.subarray(0, -1)],
    ['no type', RCODE.malformed, HEAD, name],
    ['no class', RCODE.malformed, HEAD, name, words(1)],
    ['half a class', RCODE.malformed, HEAD, name, words(1), Buffer.of(0)],
    [
      'a label of 64',
      RCODE.malformed,
      HEAD,
      Buffer.of(64),
      Buffer.alloc(64, 97),
      Buffer.of(0),
      A_IN,
    ],
    ['a label of another kind', RCODE.malformed, HEAD, Buffer.of(0x81, 97, 0), A_IN],
    ['a name of 256 octets', RCODE.malformed, HEAD, labelsOf(longName(254)), A_IN],
    ['a pointer to itself', RCODE.malformed, HEAD, words(0xc00c), A_IN],
    ['a pointer into the header', RCODE.malformed, HEAD, words(0xc000), A_IN],
    ['a pointer forward', RCODE.malformed, HEAD, words(0xc010), A_IN],
    ['a pointer behind a label', RCODE.malformed, HEAD, Buffer.of(1, 97, 0xc0, 12), A_IN],
    ['a record that is not there', RCODE.malformed, words(7, 0, 1, 0, 0, 1), name, A_IN],
    ['65,535 records', RCODE.malformed, words(7, 0, 1, 65_535, 65_535, 65_535), name, A_IN, opt],
    [
      'a label of another kind in a record',
      RCODE.malformed,
      words(7, 0, 1, 0, 0, 1),
      name,
      A_IN,
      Buffer.of(0x40),
      Buffer.alloc(0x41),
      words(16, 1, 0, 0, 0),
    ],
    ['half a record', RCODE.malformed, words(7, 0, 1, 0, 0, 1), name, A_IN, opt.subarray(0, -1)],
    [
      'data beyond the end',
      RCODE.malformed,
      words(7, 0, 1, 0, 0, 1),
      name,
      A_IN,
      Buffer.of(0),
      words(41, 512, 0, 0, 1),
    ],
    ['two of EDNS', RCODE.malformed, words(7, 0, 1, 0, 0, 2), name, A_IN, opt, opt],
    ['EDNS as an answer', RCODE.malformed, words(7, 0, 1, 1, 0, 0), name, A_IN, opt],
    [
      'EDNS of a name',
      RCODE.malformed,
      words(7, 0, 1, 0, 0, 1),
      name,
      A_IN,
      words(0xc00c),
      opt.subarray(1),
    ],
  ]
  for (const [what, fault, ...bytes] of rows) {
    const query = read(...bytes)
    t.equal(query.fault, fault, what)
    t.equal(query.question, undefined, what)
    const answer = writeAnswer(query, { rcode: RCODE.malformed, ttl: 5 }, 512)
    t.equal(answer.length, 12, what)
    t.equal(answer.readUInt16BE(0), 7, what)
  }
  t.equal(read(queryOf({ name: 'a.test', edns: 512, ednsVersion: 0x0100 })).fault, undefined)
})

void tap.test('other versions of EDNS', async (t) => {
  const query = read(queryOf({ name: 'a.test', edns: 1_000, ednsVersion: 1 }))
  t.equal(query.fault, RCODE.badVersion)
  const answer = readAnswer(writeAnswer(query, { rcode: RCODE.badVersion, ttl: 5 }, 512))
  t.equal(answer.rcode, 0, 'the low half')
  t.match(answer.packet.additionals, [{ type: 'OPT', extendedRcode: 1, ednsVersion: 0 }])
})

void tap.test('records of other kinds are passed over', async (t) => {
  const record = Buffer.concat([words(0xc00c, 16, 1, 0, 60, 2), Buffer.of(1, 97)])
  const opt = Buffer.concat([Buffer.of(0), words(41, 900, 0, 0x8000, 6, 10, 2, 0xffff)])
  const tail = Buffer.from('what stands behind the message')
  const bytes = [
    words(7, 0, 1, 1, 1, 2),
    labelsOf('a.test'),
    A_IN,
    record,
    record,
    record,
    opt,
    tail,
  ]
  t.match(read(...bytes), { fault: undefined, ednsBytes: 900 })
})

void tap.test('a name is read once, whatever stands in it', async (t) => {
  const nameOf = (...labels: readonly Buffer[]) => {
    const parts = labels.flatMap((label) => [Buffer.of(label.length), label])
    return read(HEAD, ...parts, Buffer.of(0), A_IN).question?.name
  }
  t.equal(nameOf(Buffer.from('a.test')), undefined, 'a dot within a label is no end of it')
  t.equal(nameOf(Buffer.from('a'), Buffer.from('test.')), undefined)
  t.equal(nameOf(Buffer.from('.')), undefined)
  t.equal(nameOf(Buffer.of(0xff, 0xfe)), '\uFFFD\uFFFD')
  t.equal(nameOf(Buffer.of(0, 10)), '\0\n')
  t.equal(nameOf(Buffer.alloc(63, 97)), 'a'.repeat(63))
  t.equal(read(queryOf({ name: longName(253) })).question?.name, longName(253))
})

void tap.test('chains of pointers cost nothing', async (t) => {
  // Each points to the one before it: a reader that follows them takes as many steps as there are, for every record.
  const pointers = Array.from({ length: 8_000 }, (_, i) =>
    words(0xc000 + Math.max(12, 12 + i * 2 - 2)),
  )
  const question = read(HEAD, ...pointers, A_IN)
  t.equal(question.fault, RCODE.malformed)
  const name = labelsOf('a.test')
  const records = Array.from({ length: 5_000 }, () => words(0xffff, 16, 1, 0, 0, 0))
  const start = process.cpuUsage()
  const query = read(words(7, 0, 1, 0, 0, 5_000), name, A_IN, ...records)
  const { user } = process.cpuUsage(start)
  t.equal(query.fault, undefined)
  t.ok(user < 500_000, `${user} µs`)
})

void tap.test(
  'an answer repeats the question, and what of its flags is to be repeated',
  async (t) => {
    const bytes = queryOf({ name: 'Api.Example.TEST', flags: 0x07ff })
    const answer = writeAnswer(
      read(bytes),
      { rcode: 0, record: { type: 'A', data: '127.64.0.2' }, ttl: 5 },
      512,
    )
    t.ok(answer.subarray(12, 34).equals(bytes.subarray(12, 34)), 'octet by octet')
    t.equal(answer.length, 34 + 16, 'the owner is a pointer')
    const { flags, packet } = readAnswer(answer)
    t.equal(flags, 0x8190, 'QR, RD, RA, CD')
    t.match(packet.answers, [{ name: 'Api.Example.TEST', type: 'A', ttl: 5, data: '127.64.0.2' }])
    t.equal(packet.authorities?.length, 0)
    const plain = readAnswer(writeAnswer(read(queryOf({ name: 'a.test', flags: 0 })), NONE, 512))
    t.equal(plain.flags, 0x8080)
    t.match(plain.packet.authorities, [{ type: 'SOA', name: '.', ttl: 5, data: { minimum: 5 } }])
    t.equal(plain.packet.additionals?.length, 0, 'no EDNS to who speaks none (RFC 6891 7)')
  },
)

void tap.test('no answer is longer than every client takes', async (t) => {
  const name = longName(253)
  const query = read(queryOf({ name, edns: 512 }))
  const record = (type: 'A' | 'AAAA' | 'PTR', data: string) => ({
    rcode: RCODE.noError,
    record: { type, data },
    ttl: 5,
  })
  const replies = [NONE, record('A', '127.64.0.2'), record('AAAA', '::1')]
  for (const reply of replies) t.ok(writeAnswer(query, reply, 65_535).length <= 512)
  const reverse = read(queryOf({ name: `${'0.'.repeat(32)}ip6.arpa`, edns: 512 }))
  t.ok(writeAnswer(reverse, record('PTR', name), 65_535).length <= 512)
})

void tap.test('an answer that is longer than it may be is cut', async (t) => {
  const bytes = queryOf({ name: 'a.test', edns: 512 })
  const reply: DnsReply = { rcode: 0, record: { type: 'PTR', data: longName(253) }, ttl: 5 }
  const cut = writeAnswer(read(bytes), reply, 300)
  t.ok(cut.length < 300)
  const { isCut, answers, packet } = readAnswer(cut)
  t.strictSame({ isCut, answers }, { isCut: true, answers: [] })
  t.match(packet.questions, [{ name: 'a.test' }])
  t.match(packet.additionals, [{ type: 'OPT', udpPayloadSize: 1_232 }], 'RFC 6891 7')
  t.notOk(readAnswer(writeAnswer(read(bytes), reply, 512)).isCut)
})

void tap.test('how long a datagram may be', async (t) => {
  const rows: [edns: number | undefined, bytes: number][] = [
    [undefined, 512],
    [0, 512],
    [511, 512],
    [900, 900],
    [1_232, 1_232],
    [65_535, 1_232],
  ]
  for (const [edns, bytes] of rows) {
    const parts = edns === undefined ? {} : { edns }
    t.equal(datagramBytes(read(queryOf({ name: 'a.test', ...parts }))), bytes, `${edns}`)
  }
})
