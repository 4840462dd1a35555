import tap from 'tap'
import { Teardown } from '../../src/sandbox/teardown.ts'

void tap.test('what was made last goes first, once', async (t) => {
  const order: string[] = []
  const teardown = new Teardown()
  teardown.add('a', () => void order.push('a'))
  teardown.add('b', async () => {
    await Promise.resolve()
    order.push('b')
  })
  const first = teardown.run()
  t.strictSame(await first, [])
  t.strictSame(await teardown.run(), [])
  t.strictSame(order, ['b', 'a'])
})

void tap.test('a step that fails holds nobody up, and is told', async (t) => {
  const order: string[] = []
  const teardown = new Teardown()
  teardown.add('first', () => void order.push('first'))
  teardown.add('left', () => ['container 12'])
  teardown.add('broken', () => {
    throw new Error('disk full')
  })
  teardown.add('refused', () => Promise.reject(new Error('no answer')))
  t.strictSame(await teardown.run(), ['refused: no answer', 'broken: disk full', 'container 12'])
  t.strictSame(order, ['first'])
})

void tap.test('what is put down while the teardown runs goes too', async (t) => {
  const order: string[] = []
  const teardown = new Teardown()
  teardown.add('old', () => void order.push('old'))
  teardown.add('new', () => teardown.add('late', () => void order.push('late')))
  await teardown.run()
  t.strictSame(order, ['late', 'old'])
})
