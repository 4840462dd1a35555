import tap from 'tap'
import { AddressIndex } from '../../src/policy/address-index.ts'
import { type IpAddress, lastOf } from '../../src/policy/address.ts'
import { ipHost } from '../../src/policy/host.ts'
import { matchesPattern } from '../../src/policy/pattern.ts'
import { portsContain } from '../../src/policy/ports.ts'
import { isLive, type Rule } from '../../src/policy/rule.ts'
import { lastInBucket } from '../../src/policy/rule-bucket.ts'
import { seeded, seedOf, type Random } from '../support/random.ts'
import { AFTER, BEFORE, NOW, ruleOf, targetOf, type Written } from '../support/policy-of.ts'
import { cpuTimeMs } from '../support/cpu-time.ts'

function place(rules: readonly Written[]) {
  return rules.map((rule, i) => Object.assign({}, ruleOf(rule, i + 1), { place: i }))
}

function lookUp(rules: readonly Written[], address: string): string[] {
  const { host } = targetOf(address)
  if (host.kind !== 'ip') throw new Error(address)
  return new AddressIndex(place(rules)).bucket(host.ip).map(({ text }) => text)
}

void tap.test('an address finds every range that holds it, the last rule first', async (t) => {
  const rules = [
    '10.0.0.0/8',
    '10.1.0.0/16',
    'a.test',
    '10.1.2.3',
    '0.0.0.0/0',
    '[2001:db8::1]',
    '2001:db8::/32',
  ]
  t.strictSame(lookUp(rules, '10.1.2.3'), ['0.0.0.0/0', '10.1.2.3', '10.1.0.0/16', '10.0.0.0/8'])
  t.strictSame(lookUp(rules, '10.1.2.4'), ['0.0.0.0/0', '10.1.0.0/16', '10.0.0.0/8'])
  t.strictSame(lookUp(rules, '10.2.0.0'), ['0.0.0.0/0', '10.0.0.0/8'])
  t.strictSame(lookUp(rules, '9.255.255.255'), ['0.0.0.0/0'])
  t.strictSame(lookUp(rules, '255.255.255.255'), ['0.0.0.0/0'])
  t.strictSame(lookUp(rules, '[2001:db8::1]'), ['2001:db8::/32', '[2001:db8::1]'])
  t.strictSame(lookUp(rules, '[2001:db9::]'), [])
})

void tap.test('a range ends at the last address of its family', async (t) => {
  t.strictSame(lookUp(['255.255.255.255', '255.0.0.0/8'], '255.255.255.255'), [
    '255.0.0.0/8',
    '255.255.255.255',
  ])
  const last = '[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]'
  t.strictSame(lookUp(['ff00::/8', '::/0'], last), ['::/0', 'ff00::/8'])
  t.strictSame(lookUp([], '1.2.3.4'), [])
})

void tap.test('ranges that begin or end together are kept apart', async (t) => {
  const rules = [
    '10.0.0.0/8',
    '10.0.0.0/16',
    '10.0.0.0',
    '10.255.0.0/16',
    '10.255.255.255',
    '11.0.0.0/8',
  ]
  t.strictSame(lookUp(rules, '10.0.0.0'), ['10.0.0.0', '10.0.0.0/16', '10.0.0.0/8'])
  t.strictSame(lookUp(rules, '10.255.255.255'), ['10.255.255.255', '10.255.0.0/16', '10.0.0.0/8'])
  t.strictSame(lookUp(rules, '11.0.0.0'), ['11.0.0.0/8'])
})

function randomRule(random: Random): Written {
  const address = randomIp(random)
  const most = address.family === 4 ? 32 : 128
  const bits = random.pick([0, 1, most - 9, most - 8, most - 2, most - 1, most])
  const text = ruleText(address, bits)
  const host = `${random.chance(40) ? '!' : ''}${text}`
  const until = random.pick([undefined, undefined, BEFORE, AFTER])
  const ports = random.pick([undefined, [80], [443], ['1-100'], ['*']])
  return { host, ...(until && { until }), ...(ports && { ports }) }
}

function ruleText(address: IpAddress, bits: number): string {
  const words = address.words.map((word, i) => {
    const fixed = Math.min(32, Math.max(0, bits - 32 * i))
    return fixed === 0 ? 0 : (word & (0xffffffff << (32 - fixed))) >>> 0
  })
  return `${ipText({ family: address.family, words })}/${bits}`
}

function ipText({ family, words }: IpAddress): string {
  if (family === 4)
    return [24, 16, 8, 0].map((shift) => ((words[0] ?? 0) >>> shift) & 255).join('.')
  return words
    .map((word) => `${(word >>> 16).toString(16)}:${(word & 0xffff).toString(16)}`)
    .join(':')
}

/** Addresses out of a small pool, so that ranges nest and meet. */
function randomIp(random: Random): IpAddress {
  const last = random.below(512) + random.pick([0, 0xfffffe00])
  return random.chance(50)
    ? { family: 4, words: [last >>> 0] }
    : { family: 6, words: [0x20010db8, 0, 0, last >>> 0] }
}

void tap.test('the index finds the rule that trying each would find', async (t) => {
  const seed = seedOf(21)
  const random = seeded(seed)
  let found = 0
  for (let round = 0; round < 400; round++) {
    const rules = place(Array.from({ length: 1 + random.below(30) }, () => randomRule(random)))
    const index = new AddressIndex(rules)
    const ends = rules.flatMap((rule): IpAddress[] =>
      rule.pattern.kind === 'ip' ? [rule.pattern.cidr.first, lastOf(rule.pattern.cidr)] : [],
    )
    for (const ip of [...ends, ...Array.from({ length: 20 }, () => randomIp(random))]) {
      for (const port of [80, 443, 8080]) {
        const isHit = (rule: Rule) =>
          matchesPattern(rule.pattern, ipHost(ip)) &&
          portsContain(rule.ports, port) &&
          isLive(rule, NOW)
        const slow = rules.findLast(isHit)
        if (slow) found++
        const fast = lastInBucket(index.bucket(ip), port, NOW)
        if (fast !== slow)
          t.fail(`${ipText(ip)} port ${port}: ${fast?.text}, not ${slow?.text} (SEED=${seed})`)
      }
    }
  }
  t.ok(found > 10_000, `${found} look-ups met a rule`)
})

void tap.test('many rules for one range cost no more than many ranges', async (t) => {
  const rules = place(Array.from({ length: 20_000 }, (_, i) => `10.0.0.0/8:${i + 1}`))
  const started = cpuTimeMs()
  const index = new AddressIndex(rules)
  t.ok(cpuTimeMs() - started < 6000)
  t.equal(index.bucket({ family: 4, words: [0x0a000001] }).length, 20_000)
})
