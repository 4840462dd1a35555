import tap from 'tap'
import { RestingAddresses } from '../../src/door/resting-addresses.ts'

void tap.test('the one that has rested longest comes first, when it has rested', async (t) => {
  const resting = new RestingAddresses(2, 100)
  t.equal(resting.take(1_000), undefined, 'none')
  resting.add(7, 0)
  resting.add(2 ** 32 - 1, 50)
  t.ok(resting.isFull)
  t.throws(() => resting.add(9, 60), /no room/)
  t.equal(resting.take(99), undefined)
  t.equal(resting.take(100), 7)
  resting.add(8, 100)
  t.equal(resting.take(149), undefined)
  t.equal(resting.take(150), 2 ** 32 - 1)
  t.equal(resting.take(200), 8, 'round the ring')
  t.equal(resting.take(1_000), undefined)
  t.notOk(resting.isFull)
})

void tap.test('without room it is always full', async (t) => {
  const resting = new RestingAddresses(0, 0)
  t.ok(resting.isFull)
  t.equal(resting.take(0), undefined)
})
