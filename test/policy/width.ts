import tap from 'tap'
import { parsePattern } from '../../src/policy/pattern.ts'
import { spansPublicSuffix, spansRentedZone } from '../../src/policy/width.ts'

const TABLE: [pattern: string, suffix: boolean, rented: boolean][] = [
  ['example.com', false, false],
  ['com', false, false],
  ['*.example.com', false, false],
  ['api.*.example.com', false, false],
  ['*', true, true],
  ['**', true, true],
  ['*.com', true, true],
  ['**.com', true, true],
  ['a*.com', true, true],
  ['api.*.com', true, true],
  ['*.example.*', true, true],
  ['*.co.uk', true, true],
  ['**.co.uk', true, true],
  ['*.example.co.uk', false, false],
  ['**.test', true, true],
  ['*.kawasaki.jp', true, true],
  ['**.ck', true, true],
  ['*.www.ck', false, false],
  ['*.xn--55qx5d.cn', true, true],
  ['*.xn--p1ai', true, true],
  ['*.github.io', false, true],
  ['*.example.github.io', false, false],
  ['**.blogspot.com', false, true],
]

void tap.test(
  'a pattern as wide as a public suffix or a rented zone is known for it',
  async (t) => {
    for (const [text, suffix, rented] of TABLE) {
      const pattern = parsePattern(text)
      if (pattern.kind !== 'name') throw new Error(text)
      t.equal(spansPublicSuffix(pattern), suffix, `${text} and the public suffixes`)
      t.equal(spansRentedZone(pattern), rented, `${text} and rented zones`)
    }
  },
)
