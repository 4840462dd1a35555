import tap from 'tap'
import type { EgressError } from '../../src/errors.ts'
import { formatCidr } from '../../src/policy/address.ts'
import { DEFAULT_DOOR, readSyntheticRange } from '../../src/policy/door-range.ts'
import { parsePolicy } from '../../src/policy/parse.ts'

void tap.test('ranges that may stand for names', async (t) => {
  for (const text of [
    '127.64.0.0/10',
    '127.128.0.0/9',
    '198.18.0.0/15',
    '100.64.0.0/10',
    '10.0.0.0/8',
    '10.1.0.0/20',
    '172.16.0.0/12',
  ]) {
    const range = readSyntheticRange(text)
    t.equal(typeof range === 'string' ? range : formatCidr(range), text)
  }
  t.equal(formatCidr(DEFAULT_DOOR.syntheticRange), '127.64.0.0/10')
})

void tap.test('ranges that may not, and why', async (t) => {
  const rows: [text: string, why: RegExp][] = [
    ['', /no IPv4 range/],
    ['127.64.0.0', /no IPv4 range/],
    ['fd00::/64', /no IPv4 range/],
    ['127.64.0.0/33', /no IPv4 range/],
    ['127.064.0.0/10', /no IPv4 range/],
    ['127.64.0.1/10', /bits of the host are set: 127\.64\.0\.0\/10/],
    ['127.0.0.0/8', /holds 127\.0\.0\.1/],
    ['127.0.0.0/16', /holds 127\.0\.0\.1/],
    ['0.0.0.0/0', /between \/8 and \/20/],
    ['10.0.0.0/7', /between \/8 and \/20/],
    ['10.0.0.0/21', /between \/8 and \/20/],
    ['8.0.0.0/8', /nobody outside/],
    ['172.0.0.0/8', /nobody outside/],
    ['169.254.0.0/16', /nobody outside/],
    ['224.0.0.0/8', /nobody outside/],
    ['198.18.0.0/14', /bits of the host/],
  ]
  for (const [text, why] of rows) {
    const answer = readSyntheticRange(text)
    t.equal(typeof answer, 'string', text)
    t.match(answer, why, text)
  }
})

void tap.test('a policy file says it, or is told what is wrong with it', async (t) => {
  const good = 'door:\n  syntheticRange: 198.18.0.0/15\n'
  t.equal(formatCidr(parsePolicy(good, 'p.yaml').door.syntheticRange), '198.18.0.0/15')
  t.strictSame(parsePolicy('rules: []', 'p.yaml').door, DEFAULT_DOOR)
  const problemOf = (text: string) => {
    try {
      parsePolicy(text, 'p.yaml')
      return undefined
    } catch (error) {
      return (error as EgressError).problems[0]
    }
  }
  t.match(problemOf('door:\n  syntheticRange: 8.0.0.0/8\n'), {
    code: 'POLICY_RULE',
    at: { line: 2, column: 19 },
    message: /8\.0\.0\.0\/8/,
  })
  t.match(problemOf('door:\n  range: 198.18.0.0/15\n'), { code: 'POLICY_SHAPE', message: /range/ })
})
