import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import tap from 'tap'
import { classifyIp, embeddedIpv4 } from '../../src/policy/address-kind.ts'
import {
  type Cidr,
  cidrContains,
  familyBits,
  firstOf,
  formatIp,
  type IpAddress,
  lastOf,
  parseIpv4,
  parseIpv6,
} from '../../src/policy/address.ts'
import { type Random, seeded, seedOf } from '../support/random.ts'

// Python's `is_global` follows the same IANA registries, kept by other people: where it and the address floor differ,
// the difference has a name here.

const ORACLE = fileURLToPath(new URL('../support/ipaddress-oracle.py', import.meta.url))
const TABLE_SOURCE = fileURLToPath(new URL('../../src/policy/address-kind.ts', import.meta.url))

function ip(text: string): IpAddress {
  const address = parseIpv4(text) ?? parseIpv6(text)
  if (address === undefined) throw new Error(`no address: ${text}`)
  return address
}

function cidr(text: string): Cidr {
  const [address = '', bits] = text.split('/')
  const first = ip(address)
  return { first, bits: bits === undefined ? familyBits(first.family) : Number(bits) }
}

/** Ranges in which we and Python differ, and why. A range is listed under what we say of it. */
const DIFFERENCES: [ours: 'open' | 'closed', range: string, why: string][] = [
  ['closed', '168.63.129.16', 'a metadata service on a public address'],
  [
    'closed',
    '192.0.0.0/24',
    'the whole block for protocol assignments is closed; this Python knows parts of it',
  ],
  [
    'closed',
    '192.88.99.0/24',
    'the 6to4 relay anycast is withdrawn, and nobody should be met there',
  ],
  ['closed', '224.0.0.0/4', 'Python calls most multicast global; a proxy connects to no group'],
  ['closed', 'ff00::/8', 'Python calls most multicast global; a proxy connects to no group'],
  ['closed', 'fec0::/10', 'site-local addresses are deprecated, and were never global'],
  ['closed', '100:0:0:1::/64', 'the dummy prefix came into the registry after this Python'],
  [
    'closed',
    '3fff::/20',
    'the second documentation prefix came into the registry after this Python',
  ],
  ['closed', '64:ff9b:1::/48', 'local-use translation leads into a network of its own'],
  ['open', '192.0.0.9', 'port control anycast is global'],
  ['open', '192.0.0.10', 'TURN anycast is global'],
  ['open', '2001:1::1', 'port control anycast is global'],
  ['open', '2001:1::2', 'TURN anycast is global'],
  ['open', '2001:1::3', 'service registration anycast is global'],
  ['open', '2001:3::/32', 'AMT is global'],
  ['open', '2001:4:112::/48', 'AS112 is global'],
  ['open', '2001:20::/28', 'ORCHIDv2 is global'],
  ['open', '2001:30::/28', 'DRIP is global'],
]

/** Kinds of difference that are no single range. */
const CLASSES: [name: string, holds: (address: IpAddress, isOpen: boolean) => boolean][] = [
  [
    'an address that carries IPv4 is judged by what it carries',
    (address, isOpen) => {
      const inner = embeddedIpv4(address)
      return inner.length > 0 && isOpen === inner.every((one) => classifyIp(one).kind === 'public')
    },
  ],
  [
    'IPv6 space that is not given out as global unicast is closed',
    (address, isOpen) =>
      !isOpen && address.family === 6 && !cidrContains(cidr('2000::/3'), address),
  ],
]

function classOf(address: IpAddress, isOpen: boolean): string | undefined {
  const range = DIFFERENCES.find(
    ([ours, text]) => (ours === 'open') === isOpen && cidrContains(cidr(text), address),
  )
  return range
    ? `${range[1]}: ${range[2]}`
    : CLASSES.find(([, holds]) => holds(address, isOpen))?.[0]
}

/** The ranges that the table of the floor has, read from its source. */
function ourRanges(): string[] {
  const text = readFileSync(TABLE_SOURCE, 'utf8')
  return [...text.matchAll(/'([\da-f:.]+(?:\/\d+)?)'/g)].flatMap(([, range = '']) =>
    /[.:]/.test(range) ? [range] : [],
  )
}

/** First and last address of a range, the one before and the one behind. */
function boundaries(range: Cidr): IpAddress[] {
  const first = firstOf(range.first, range.bits)
  const last = lastOf(range)
  return [first, last, step(first, -1), step(last, 1)]
}

function step({ family, words }: IpAddress, by: 1 | -1): IpAddress {
  const next = [...words]
  for (let i = next.length - 1; i >= 0; i--) {
    const word = (next[i] ?? 0) + by
    next[i] = word >>> 0
    if (word >= 0 && word <= 0xffffffff) break
  }
  return { family, words: next }
}

function randomIp(random: Random, ranges: readonly Cidr[]): IpAddress {
  if (random.chance(30)) {
    return random.chance(50)
      ? { family: 4, words: [random.word()] }
      : { family: 6, words: [random.word(), random.word(), random.word(), random.word()] }
  }
  // Inside a range, or within reach of it: some of the bits that are fixed may be flipped.
  const { first, bits } = random.pick(ranges)
  const words = first.words.map((word, i) => {
    const fixed = Math.min(32, Math.max(0, bits - 32 * i))
    const free = fixed === 32 ? 0 : 0xffffffff >>> fixed
    return (word | (random.word() & free)) >>> 0
  })
  if (random.chance(40)) {
    const at = random.below(familyBits(first.family))
    words[at >>> 5] = ((words[at >>> 5] ?? 0) ^ (1 << (31 - (at & 31)))) >>> 0
  }
  return { family: first.family, words }
}

function ask(args: string[], input: string) {
  return spawnSync('python3', [ORACLE, ...args], {
    input,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  })
}

const found = spawnSync('python3', ['--version'])
const isMissing = found.error !== undefined
const mayMiss = process.env['CI'] !== 'true'

void tap.test(
  'the floor and Python differ only where we know why',
  { skip: isMissing && mayMiss && 'there is no python3 here' },
  async (t) => {
    if (isMissing) {
      t.fail('there is no python3 here, and CI has to have one')
      return
    }
    const seed = seedOf(51)
    const random = seeded(seed)
    const theirs = ask(['ranges'], '').stdout.trim().split('\n')
    const ranges = [
      ...new Set([...ourRanges(), ...theirs, ...DIFFERENCES.map(([, range]) => range)]),
    ].map(cidr)
    const addresses = ranges.flatMap(boundaries)
    const boundaryCount = addresses.length
    while (addresses.length < boundaryCount + 100_000) addresses.push(randomIp(random, ranges))
    const lines = addresses.map(formatIp)
    const { stdout, stderr, status } = ask([], `${lines.join('\n')}\n`)
    t.equal(status, 0, stderr)
    const [version, ...answers] = stdout.trim().split('\n')
    t.comment(
      `Python ${version}, ${boundaryCount} boundaries of ${ranges.length} ranges, SEED=${seed}`,
    )
    t.equal(answers.length, lines.length)
    const counts = new Map<string, number>()
    let closed = 0
    const unexplained: string[] = []
    for (const [i, address] of addresses.entries()) {
      const isOpen = classifyIp(address).kind === 'public'
      if (!isOpen) closed++
      if (isOpen === (answers[i] === '1')) continue
      const name = classOf(address, isOpen)
      if (name === undefined) unexplained.push(`${lines[i]} is ${isOpen ? 'open' : 'closed'} here`)
      else counts.set(name, (counts.get(name) ?? 0) + 1)
    }
    t.strictSame(unexplained.slice(0, 20), [], `unexplained: ${unexplained.length} (SEED=${seed})`)
    t.ok(closed > 20_000 && closed < 90_000, `${closed} of ${addresses.length} are closed`)
    for (const [name, count] of counts) t.comment(`${count} times ${name}`)
    for (const [name] of CLASSES)
      t.ok(counts.has(name), `there are differences of the kind: ${name}`)
  },
)
