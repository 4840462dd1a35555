import tap from 'tap'
import { SlotLease, type Waited } from '../../src/workers/slot-lease.ts'

void tap.test('slots of the lease are taken at once, without a question', async (t) => {
  const asked: number[] = []
  const lease = new SlotLease(2, (slots) => asked.push(slots))
  t.ok(lease.tryTake())
  t.equal(await lease.take(), 'slot')
  t.notOk(lease.tryTake())
  lease.free()
  t.ok(lease.tryTake())
  t.strictSame(asked, [])
})

void tap.test('one question at a time, for all who wait', async (t) => {
  const asked: number[] = []
  const lease = new SlotLease(0, (slots) => asked.push(slots))
  const waited: Waited[] = []
  const wait = async () => void waited.push(await lease.take())
  const all = [wait(), wait(), wait()]
  t.strictSame(asked, [1])
  lease.add(2)
  await all[0]
  await all[1]
  t.strictSame(asked, [1, 1], 'two had what came for one; the third is asked for now')
  t.strictSame(waited, ['slot', 'slot'])
  lease.free()
  await all[2]
  t.strictSame(waited, ['slot', 'slot', 'slot'])
})

void tap.test('who was asked for in vain gets none; who came later is asked for', async (t) => {
  const asked: number[] = []
  const lease = new SlotLease(0, (slots) => asked.push(slots))
  const first = lease.take()
  const second = lease.take()
  lease.add(0)
  t.equal(await first, 'none')
  t.strictSame(asked, [1, 1])
  lease.add(1)
  t.equal(await second, 'slot')
})

void tap.test('a slot that is freed goes to who waits', async (t) => {
  const lease = new SlotLease(1, () => undefined)
  t.ok(lease.tryTake())
  const waiting = lease.take()
  lease.free()
  t.equal(await waiting, 'slot')
  t.equal(lease.giveBack(), 0)
  lease.free()
  t.equal(lease.giveBack(), 1)
  t.notOk(lease.tryTake())
})

void tap.test(
  'no answer is told as such, in time, and a late one is good for others',
  async (t) => {
    const lease = new SlotLease(0, () => undefined, 20)
    t.equal(await lease.take(), 'silence')
    lease.add(1)
    t.ok(lease.tryTake())
  },
)
