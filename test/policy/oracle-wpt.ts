import { readFileSync } from 'node:fs'
import tap, { type Test } from 'tap'
import { formatHost, parseHost } from '../../src/policy/host.ts'
import { parsePattern } from '../../src/policy/pattern.ts'

// What a browser makes of the host of a URL, beside what we make of it: on the wire, and in a rule. We are stricter on
// purpose. Every difference has to belong to a class, and a class has to have as many as are counted here: one that
// comes or goes is looked at.

interface Fixture {
  readonly hosts: readonly (readonly [input: string, host: string | null])[]
}

const { hosts } = JSON.parse(
  readFileSync(new URL('../fixtures/oracles/wpt-hosts.json', import.meta.url), 'utf8'),
) as Fixture

/** A class of differences: how many there are on the wire or in rules, why, and how to tell. */
type Difference = readonly [
  count: number,
  why: string,
  holds: (input: string, theirs: string | null, ours: string | null) => boolean,
]

const isAscii = (text: string) => /^[ -~]*$/.test(text)
const weRefuse = (theirs: string | null, ours: string | null) => theirs !== null && ours === null
const hasLongLabel = (text: string) => text.split('.').some((label) => label.length > 63)

const BOTH: Difference[] = [
  [
    4,
    'percent-encoding is no part of a host',
    (input, theirs, ours) => weRefuse(theirs, ours) && input.includes('%'),
  ],
  [
    6,
    'an empty label is no label',
    (_, theirs, ours) => weRefuse(theirs, ours) && /^\.|\.\.|^\.$/.test(theirs ?? ''),
  ],
  [
    6,
    'a label has at most 63 characters',
    (_, theirs, ours) => weRefuse(theirs, ours) && hasLongLabel(theirs ?? ''),
  ],
  [
    3,
    'a name has at most 253 characters',
    (_, theirs, ours) => weRefuse(theirs, ours) && (theirs ?? '').length > 253,
  ],
  [
    1,
    'an A-label whose Unicode looks like an A-label again is none',
    (_, theirs, ours) => weRefuse(theirs, ours) && /(?:^|\.)xn--xn--/.test(theirs ?? ''),
  ],
  [
    1,
    'only letters, digits, - and _ are in a label',
    (input, theirs, ours) => weRefuse(theirs, ours) && /[!"$&'()*+,;=`{}~]/.test(input),
  ],
]

/** The wire: whoever sends a name sends A-labels. */
const WIRE: Difference[] = [
  ...BOTH,
  [
    66,
    'no Unicode is mapped on the wire',
    (input, theirs, ours) => weRefuse(theirs, ours) && !isAscii(input),
  ],
  [1, 'one root dot is dropped', (_, theirs, ours) => ours !== null && theirs === `${ours}.`],
  [
    3,
    'no dot comes behind an IPv4 address',
    (input, theirs, ours) =>
      weRefuse(theirs, ours) && /^\d/.test(theirs ?? '') && input.endsWith('.'),
  ],
  [
    1,
    '0x alone is no number',
    (input, theirs, ours) => weRefuse(theirs, ours) && /(?:^|\.)0x(?:\.|$)/.test(input),
  ],
]

/** A rule: Unicode becomes A-labels, but what only looks like another text does not become that text. */
const RULE: Difference[] = [
  ...BOTH,
  [
    8,
    'an invisible character is refused',
    (input, theirs, ours) =>
      weRefuse(theirs, ours) && /[\p{Cf}\p{Default_Ignorable_Code_Point}]/u.test(input),
  ],
  [
    8,
    'a look-alike is refused',
    (input, theirs, ours) =>
      weRefuse(theirs, ours) &&
      (input.normalize('NFKC') !== input.normalize('NFC') || /\u3002/.test(input)),
  ],
  [2, 'one root dot is dropped', (_, theirs, ours) => ours !== null && theirs === `${ours}.`],
  [
    9,
    'an address is written with four decimal parts',
    (input, theirs, ours) =>
      weRefuse(theirs, ours) && /^[\d.]+$/.test(theirs ?? '') && isAscii(input),
  ],
]

function compare(
  t: Test,
  read: (input: string) => string | null,
  classes: readonly Difference[],
): void {
  const counts = new Map<string, number>()
  let same = 0
  for (const [input, theirs] of hosts) {
    const ours = read(input)
    const name = JSON.stringify(input).replace(
      /[^ -~]/g,
      (char) => `\\u${char.charCodeAt(0).toString(16)}`,
    )
    if (ours === theirs) {
      same++
      continue
    }
    const why = classes.find(([, , holds]) => holds(input, theirs, ours))?.[1]
    if (why === undefined) t.fail(`${name}: ${theirs} there, ${ours} here`)
    else counts.set(why, (counts.get(why) ?? 0) + 1)
  }
  for (const [count, why] of classes) t.equal(counts.get(why) ?? 0, count, `so often: ${why}`)
  t.ok(same > 150, `${same} of ${hosts.length} are the same`)
}

void tap.test('the table has hosts of every kind', async (t) => {
  t.ok(hosts.length >= 250, `${hosts.length} hosts`)
  t.equal(new Set(hosts.map(([input]) => input)).size, hosts.length, 'each stands once')
})

void tap.test(
  'on the wire a host is what a URL parser makes of it, or malformed for a reason',
  async (t) => {
    const read = (input: string) => {
      const host = parseHost(input)
      return host.kind === 'bad' ? null : formatHost(host)
    }
    compare(t, read, WIRE)
  },
)

void tap.test(
  'in a rule a host is what a URL parser makes of it, or refused for a reason',
  async (t) => {
    const read = (input: string) => {
      const pattern = parsePattern(input)
      if (pattern.kind === 'bad') return null
      return pattern.kind === 'ip' && pattern.cidr.first.family === 6
        ? `[${pattern.text}]`
        : pattern.text
    }
    compare(t, read, RULE)
  },
)

void tap.test(
  'whatever passes the wire is never another name than a URL parser takes it for',
  async (t) => {
    for (const [input, theirs] of hosts) {
      const host = parseHost(input)
      if (host.kind === 'bad') continue
      t.equal(formatHost(host), theirs?.replace(/\.$/, ''), JSON.stringify(input))
    }
  },
)
