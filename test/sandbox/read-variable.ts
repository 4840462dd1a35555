import tap from 'tap'
import { readVariable } from '../../src/sandbox/read-variable.ts'

void tap.test('a known value is read, an unset one is none, any other is refused', async (t) => {
  t.equal(readVariable('V', undefined, ['a', 'b']), undefined)
  t.equal(readVariable('V', 'b', ['a', 'b']), 'b')
  for (const text of ['', 'A', 'a ', 'ab']) {
    t.throws(() => readVariable('V', text, ['a', 'b']), {
      code: 'OPTION_INVALID',
      message: `V=${JSON.stringify(text)}: expected a or b`,
    })
  }
})
