import tap from 'tap'
import { createNameStub } from '../../src/door/name-stub.ts'
import { stubAddress, SyntheticNames } from '../../src/door/synthetic-names.ts'
import { decide } from '../../src/policy/decide.ts'
import { longName, queryOf, type QueryParts, readAnswer } from '../support/dns.ts'
import { codes, headings, readPage, sectionOf, tableOf } from '../support/page.ts'
import { NOW, policyOf, targetOf } from '../support/policy-of.ts'

const PAGE = readPage('docs/transparent.md')
const NAMES = sectionOf(PAGE, 'Names')
const RANGE = { first: { family: 4, words: [0x7f400000] }, bits: 10 } as const

const TYPES = { A: 1, NS: 2, PTR: 12, MX: 15, TXT: 16, AAAA: 28, SRV: 33, HTTPS: 65 }
const CLASSES = { IN: 1, CH: 3 }
const RCODES = ['no data', 'FORMERR', 'SERVFAIL', 'NXDOMAIN', 'NOTIMP', 'REFUSED']

/** The stub of the page's example. */
function openExample() {
  const written = /`rules: \[(.*)\]`/.exec(NAMES)?.[1] ?? ''
  const policy = policyOf(written.split(', ').map((rule) => rule.replaceAll('"', '')))
  const denied: string[] = []
  const now = () => 0
  const names = new SyntheticNames(RANGE, now)
  const stub = createNameStub({
    names,
    mayReach: ({ name }) => decide(policy, targetOf(`${name}:443`), NOW).verdict === 'allow',
    onDenied: (name) => denied.push(name),
    now,
    hostname: 'box',
  })
  const answer = (bytes: Buffer) => {
    const { rcode, answers } = readAnswer(stub.answerDatagram(bytes))
    return answers.length > 0 ? answers.join() : RCODES[rcode]
  }
  return { stub, names, denied, answer, ask: (parts: QueryParts) => answer(queryOf(parts)) }
}

void tap.test('every example of the table of names is answered as it says', async (t) => {
  const rows = tableOf(NAMES, '| asked for | example | answer | event |')
  t.ok(rows.length > 15, `${rows.length} rows`)
  const { ask, denied } = openExample()
  for (const [, example = '', answer = '', event = ''] of rows) {
    const [name = '', type = '', of = 'IN'] = codes(example)[0]?.split(' ') ?? []
    const parts = { name, type: TYPES[type as 'A'], class: CLASSES[of as 'IN'] }
    t.strictSame([ask(parts)], codes(answer), example)
    t.strictSame(denied.splice(0), event === '' ? [] : [name], `the event of ${example}`)
  }
})

void tap.test('every message of the other table is answered as it says', async (t) => {
  const { stub, answer, ask, names } = openExample()
  const name = 'api.example.test'
  const whole = queryOf({ name, edns: 512 })
  const header = (at: number, value: number) => {
    const bytes = Buffer.from(whole)
    bytes.writeUInt16BE(value, at)
    return bytes
  }
  const twice = Buffer.concat([header(10, 2), whole.subarray(-11)])
  const faulty = [header(4, 0), header(4, 2), whole.subarray(0, -1), header(12, 0xc00c), twice]
  const rows: Readonly<Record<string, () => unknown>> = {
    none: () =>
      [whole.subarray(0, 11), header(2, 0x8000)].every(
        (bytes) => stub.answerDatagram(bytes) === undefined,
      ),
    NOTIMP: () => answer(header(2, 0x2000)) === 'NOTIMP',
    FORMERR: () =>
      [...faulty, queryOf({ name: longName(254) })].every((bytes) => answer(bytes) === 'FORMERR'),
    BADVERS: () => {
      const bytes = stub.answerDatagram(queryOf({ name, edns: 512, ednsVersion: 1 }))
      const [opt] = readAnswer(bytes).packet.additionals ?? []
      return opt?.type === 'OPT' && opt.extendedRcode === 1
    },
    SERVFAIL: () => {
      names.addressOf = () => undefined
      return ask({ name }) === 'SERVFAIL'
    },
  }
  const answers = tableOf(NAMES, '| message | answer |').map(([, one]) => one)
  t.strictSame(answers, Object.keys(rows))
  for (const [row, holds] of Object.entries(rows)) t.ok(holds(), row)
})

void tap.test('the bounds of synthetic addresses', async (t) => {
  const bounds = Object.fromEntries(tableOf(sectionOf(PAGE, 'Synthetic addresses'), '| bound | |'))
  let now = 0
  const names = new SyntheticNames(RANGE, () => now)
  t.equal(stubAddress(RANGE), '127.64.0.1')
  const count = (text: string | undefined) => Number(/\d[\d,]*\d/.exec(text ?? '')?.[0].replace(',', ''))
  const most = count(bounds['names at a time'])
  const resting = count(bounds['addresses that rest at a time'])
  let given = 0
  while (names.addressOf(`n${given}`) !== undefined) given++
  t.strictSame([names.size, given], [most, most + resting])
  now = count(bounds['rest']) * 60_000 - 1
  t.equal(names.addressOf('late'), undefined)
  now++
  t.equal(names.addressOf('late'), '127.64.0.2')
  const small = new SyntheticNames({ first: RANGE.first, bits: 24 }, () => now)
  for (let i = 0; i < 230; i++) small.addressOf(`n${i}`)
  t.match(bounds['a small range'], `a /24 has ${small.size} names`)
})

void tap.test('the links of the page', async (t) => {
  const anchors = headings(PAGE)
  for (const [, anchor = ''] of PAGE.matchAll(/\]\(#([^)]*)\)/g)) t.ok(anchors.includes(anchor), anchor)
})
