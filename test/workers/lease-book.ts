import tap from 'tap'
import { LeaseBook } from '../../src/workers/lease-book.ts'
import { SlotLease } from '../../src/workers/slot-lease.ts'
import { type Random, seeded, seedOf } from '../support/random.ts'

const SEED = seedOf(20_261_130)

/** A worker as the book sees it: two channels that keep their order, and tunnels that come and go. */
interface Worker {
  readonly toWorker: (() => void)[]
  readonly toPrimary: (() => void)[]
  lease: SlotLease
  used: number
  /** How many wait for a slot. */
  waiting: number
  isGone: boolean
}

/** A primary and its workers with messages on the way, which are delivered one at a time in any order of channels. */
class House {
  readonly workers: Worker[] = []
  readonly book: LeaseBook<Worker>
  readonly slots: number
  refusals = 0

  constructor(slots: number, count: number) {
    this.slots = slots
    this.book = new LeaseBook<Worker>(
      slots,
      {
        lease: (worker, more) => worker.toWorker.push(() => worker.lease.add(more)),
        recall: (worker, round) =>
          worker.toWorker.push(() => {
            const unused = worker.lease.giveBack()
            worker.toPrimary.push(() => this.book.giveBack(worker, round, unused))
          }),
      },
      { workers: count, roundMs: 60_000 },
    )
    for (let i = 0; i < count; i++) this.join()
  }

  join(): void {
    const worker: Worker = {
      toWorker: [],
      toPrimary: [],
      lease: new SlotLease(0, () => undefined),
      used: 0,
      waiting: 0,
      isGone: false,
    }
    const first = this.book.join(worker)
    worker.lease = new SlotLease(
      first,
      (slots) => worker.toPrimary.push(() => this.book.ask(worker, slots)),
      60_000,
    )
    this.workers.push(worker)
  }

  get used(): number {
    return this.workers.reduce((sum, { used }) => sum + used, 0)
  }

  take(worker: Worker): void {
    if (worker.lease.tryTake()) {
      worker.used++
      return
    }
    worker.waiting++
    void worker.lease.take().then((waited) => {
      worker.waiting--
      if (worker.isGone) return
      if (waited === 'slot') worker.used++
      else this.refusals++
    })
  }

  free(worker: Worker): void {
    if (worker.used === 0) return
    worker.used--
    worker.lease.free()
  }

  die(worker: Worker): void {
    worker.isGone = true
    this.workers.splice(this.workers.indexOf(worker), 1)
    // What it said may still come; what was for it does not.
    for (const deliver of worker.toPrimary.splice(0)) deliver()
    worker.toWorker.length = 0
    this.book.leave(worker)
    // Nobody waits in a process that is gone.
    worker.lease.add(0)
    worker.lease.add(0)
  }

  /** Delivers one message of some channel; false if there is none. */
  deliver(random: Random): boolean {
    const channels = this.workers
      .flatMap(({ toWorker, toPrimary }) => [toWorker, toPrimary])
      .filter(({ length }) => length > 0)
    if (channels.length === 0) return false
    random.pick(channels).shift()?.()
    return true
  }

  async settle(random: Random): Promise<void> {
    while (this.deliver(random)) await Promise.resolve()
    await new Promise((resolve) => setImmediate(resolve))
    if (this.deliver(random)) await this.settle(random)
  }
}

void tap.test('never more than there are, whatever the order of messages', async (t) => {
  const random = seeded(SEED)
  for (let history = 0; history < 60; history++) {
    const slots = random.pick([1, 2, 3, 4, 7, 50])
    const house = new House(slots, 2 + random.below(3))
    for (let step = 0; step < 400; step++) {
      const worker = random.pick(house.workers)
      const turn = random.below(100)
      if (turn < 35) house.take(worker)
      else if (turn < 60) house.free(worker)
      else if (turn < 62) {
        house.die(worker)
        house.join()
      } else house.deliver(random)
      await Promise.resolve()
      if (house.used > slots) t.fail(`seed ${SEED}, history ${history}: ${house.used} of ${slots}`)
    }
    await house.settle(random)
    t.ok(house.used <= slots)
    const waiting = house.workers.reduce((sum, one) => sum + one.waiting, 0)
    t.equal(waiting, 0, 'everybody was answered')
    // All of them can be taken by any one worker, once nothing else has them.
    for (const worker of house.workers) while (worker.used > 0) house.free(worker)
    const [one] = house.workers
    const before = house.refusals
    if (one === undefined) throw new TypeError('there are some')
    for (let i = 0; i < slots; i++) house.take(one)
    await house.settle(random)
    t.equal(one.used, slots, `seed ${SEED}, history ${history}: all ${slots} are to be had`)
    t.equal(house.refusals, before)
    house.take(one)
    await house.settle(random)
    t.equal(house.refusals, before + 1, 'and not one more')
  }
})

void tap.test('nobody is refused while fewer tunnels are open than there may be', async (t) => {
  const random = seeded(SEED + 1)
  for (const slots of [1, 2, 3, 5, 40]) {
    for (const count of [2, 3, 4]) {
      const house = new House(slots, count)
      for (let step = 0; step < 300; step++) {
        // One thing at a time: then every refusal has to be a true one.
        const worker = random.pick(house.workers)
        const before = house.refusals
        const open = house.used
        if (random.chance(60)) {
          house.take(worker)
          await house.settle(random)
          const isRefused = house.refusals > before
          if (isRefused !== (open === slots))
            t.fail(`seed ${SEED + 1}: ${open} of ${slots} open, refused: ${isRefused}`)
        } else house.free(worker)
      }
      t.ok(house.used <= slots, `${slots} slots, ${count} workers`)
    }
  }
})

void tap.test('a worker asks seldom while there are many', async (t) => {
  const random = seeded(SEED + 2)
  const house = new House(10_000, 2)
  let asked = 0
  for (let i = 0; i < 9_000; i++) {
    const worker = house.workers[i % 2]
    if (worker === undefined) throw new TypeError('two of them')
    const before = worker.toPrimary.length
    house.take(worker)
    if (worker.toPrimary.length > before) asked++
    if (worker.waiting > 0) await house.settle(random)
  }
  t.equal(house.used, 9_000)
  t.equal(house.refusals, 0)
  t.ok(asked < 20, `${asked} questions for 9,000 tunnels`)
})

void tap.test('a worker that does not answer is not waited for', async (t) => {
  const calls: string[] = []
  const book = new LeaseBook<string>(
    1,
    {
      lease: (worker, slots) => calls.push(`${worker} +${slots}`),
      recall: (worker) => calls.push(`${worker}?`),
    },
    { workers: 2, roundMs: 20 },
  )
  t.equal(book.join('stuck'), 1)
  t.equal(book.join('other'), 0)
  book.ask('other', 1)
  await new Promise((resolve) => setTimeout(resolve, 60))
  t.strictSame(calls, ['stuck?', 'other?', 'other +0'])
  book.giveBack('stuck', 1, 1)
  book.ask('other', 1)
  t.equal(calls.at(-1), 'other +1', 'what it gives back late is free all the same')
})

void tap.test('who asks during a round has one of its own', async (t) => {
  const calls: string[] = []
  const book = new LeaseBook<string>(
    1,
    {
      lease: (worker, slots) => calls.push(`${worker} +${slots}`),
      recall: (worker, round) => calls.push(`${worker}?${round}`),
    },
    { workers: 3 },
  )
  for (const worker of ['a', 'b', 'c']) book.join(worker)
  book.ask('b', 1)
  book.giveBack('a', 1, 0)
  book.ask('c', 1)
  book.giveBack('b', 1, 0)
  book.giveBack('c', 1, 0)
  t.strictSame(calls.slice(3), ['b +0', 'a?2', 'b?2', 'c?2'])
  book.giveBack('a', 2, 1)
  t.equal(calls.at(-1), 'c +1')
  book.giveBack('b', 2, 0)
  book.giveBack('c', 2, 0)
  t.equal(calls.at(-1), 'c +1', 'nobody waits any more')
})

void tap.test('a worker that is gone gives back what it had, and is asked nothing', async (t) => {
  const calls: string[] = []
  const book = new LeaseBook<string>(
    2,
    {
      lease: (worker, slots) => calls.push(`${worker} +${slots}`),
      recall: (worker) => calls.push(`${worker}?`),
    },
    { workers: 2 },
  )
  book.join('a')
  book.join('b')
  book.ask('a', 1)
  t.strictSame(calls.splice(0), ['a?', 'b?'])
  book.leave('b')
  t.strictSame(calls.splice(0), ['a +1'])
  book.giveBack('b', 1, 5)
  book.ask('b', 1)
  book.ask('a', 1)
  t.strictSame(calls.splice(0), ['a?'])
  book.giveBack('a', 2, 0)
  t.strictSame(calls.splice(0), ['a +0'])
})
