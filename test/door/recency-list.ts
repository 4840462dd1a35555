import tap from 'tap'
import { type Listed, RecencyList } from '../../src/door/recency-list.ts'
import { seeded, seedOf } from '../support/random.ts'

interface Item extends Listed<Item> {
  readonly number: number
}

void tap.test('it keeps the order in which they were put in', async (t) => {
  const seed = seedOf(11)
  t.comment(`SEED=${seed}`)
  const random = seeded(seed)
  const list = new RecencyList<Item>()
  const items: Item[] = Array.from({ length: 8 }, (_, number) => ({ number }))
  const order: Item[] = []
  t.equal(list.oldest, undefined)
  for (let i = 0; i < 5_000; i++) {
    const item = random.pick(items)
    const at = order.indexOf(item)
    if (at === -1) {
      list.add(item)
      order.push(item)
    } else {
      list.remove(item)
      order.splice(at, 1)
    }
    const seen: number[] = []
    for (let one = list.oldest; one && seen.length < 20; one = one.newer) seen.push(one.number)
    const wanted = order.map(({ number }) => number)
    if (seen.join() !== wanted.join()) t.strictSame(seen, wanted)
  }
  t.pass('5,000 steps')
})
