import tap from 'tap'
import { nearWords } from '../../src/policy/near.ts'

const KNOWN = ['rules', 'presets', 'preset', 'mode', 'tests', 'iterion-default']

void tap.test(
  'a slip of the finger finds the word that was meant, the nearest first',
  async (t) => {
    t.strictSame(nearWords('ruls', KNOWN), ['rules'])
    t.strictSame(nearWords('PRESET', KNOWN), ['preset', 'presets'])
    t.strictSame(nearWords('default', KNOWN), ['iterion-default'], 'a part of the word is near')
    t.strictSame(nearWords('mdoe', KNOWN), ['mode'])
  },
)

void tap.test('nothing is offered for a word like none of them', async (t) => {
  t.strictSame(nearWords('zzzzzzzzzz', KNOWN), [])
  t.strictSame(nearWords('x', []), [])
})

void tap.test('at most three are offered', async (t) => {
  t.equal(nearWords('a', ['ab', 'ac', 'ad', 'ae']).length, 3)
})

void tap.test('a very long word costs no more than a short one', async (t) => {
  t.strictSame(nearWords('r'.repeat(1e7), KNOWN), [])
})
