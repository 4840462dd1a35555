import tap from 'tap'
import { DeniedLookups } from '../../src/door/denied-lookups.ts'
import { TYPE } from '../../src/door/dns-message.ts'

const { A, AAAA, HTTPS, SVCB } = TYPE
const TXT = 16

void tap.test('what a resolver asks in one go is one look-up', async (t) => {
  let now = 5_000
  const lookups = new DeniedLookups(() => now)
  const rows: [after: number, type: number, begins: boolean, why: string][] = [
    [0, A, true, 'the first'],
    [1, AAAA, false, 'with the first'],
    [1, HTTPS, false, 'with the first'],
    [1, SVCB, false, 'with the first'],
    [1, TXT, false, 'with the first'],
    [0, 15, true, 'of all other types one'],
    [0, A, false, 'a part of the new one'],
    [0, A, true, 'A anew'],
    [1_999, AAAA, false, 'within two seconds'],
    [1, HTTPS, true, 'after two seconds'],
  ]
  for (const [after, type, begins, why] of rows) {
    now += after
    t.equal(lookups.begins('a.test', type), begins, `${type}: ${why}`)
  }
  t.equal(lookups.begins('b.test', AAAA), true, 'another name')
})

void tap.test('the last 1,000 names are remembered', async (t) => {
  const lookups = new DeniedLookups(() => 0)
  for (let i = 0; i < 1_001; i++) lookups.begins(`n${i}.test`, A)
  t.equal(lookups.begins('n1.test', AAAA), false)
  t.equal(lookups.begins('n0.test', AAAA), true, 'forgotten')
  t.equal(lookups.begins('n2.test', AAAA), false)
  t.equal(lookups.begins('n1.test', AAAA), true, 'forgotten for the one that came back')
  t.equal(lookups.begins('n3.test', A), true, 'asked anew, and so the newest')
  t.equal(lookups.begins('another.test', A), true)
  t.equal(lookups.begins('n3.test', AAAA), false)
  t.equal(lookups.begins('n4.test', AAAA), true, 'forgotten')
})
