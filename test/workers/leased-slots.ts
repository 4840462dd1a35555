import tap, { type Test } from 'tap'
import { DEFAULT_LIMITS } from '../../src/proxy/limits.ts'
import { ClientEntries } from '../../src/workers/client-entries.ts'
import { LeasedSlots } from '../../src/workers/leased-slots.ts'
import { SlotLease } from '../../src/workers/slot-lease.ts'
import { openSocketPair } from '../support/socket-pair.ts'

const COUNTED = { ...DEFAULT_LIMITS, maxTunnelsPerClient: 5 }

function open(leased: number) {
  const said: string[] = []
  const lease = new SlotLease(leased, (slots) => said.push(`ask ${slots}`), 50)
  const entries = new ClientEntries(
    {
      enter: (id, client) => said.push(`enter ${id} ${client}`),
      leave: (client) => said.push(`leave ${client}`),
    },
    50,
  )
  const slots = new LeasedSlots({ lease, entries, mostTunnels: 7 })
  return { slots, lease, entries, said }
}

async function clientOf(t: Test) {
  const [client] = await openSocketPair(t)
  return client
}

void tap.test('a slot of the lease is taken without a promise and without a word', async (t) => {
  const { slots, said, lease } = open(1)
  const client = await clientOf(t)
  t.equal(slots.take(client, DEFAULT_LIMITS), undefined)
  t.equal(lease.giveBack(), 0)
  slots.free(client)
  slots.free(client)
  t.equal(lease.giveBack(), 1)
  t.strictSame(said, [])
})

void tap.test('what this process bears goes first', async (t) => {
  const { slots, said } = open(5)
  const limits = { ...DEFAULT_LIMITS, maxTunnels: 1 }
  t.equal(slots.take(await clientOf(t), limits), undefined)
  t.match(slots.take(await clientOf(t), limits), { status: 503, detail: /^1 tunnels are open/ })
  t.strictSame(said, [])
})

void tap.test('without a slot the primary is asked, and what it says holds', async (t) => {
  const { slots, said, lease } = open(0)
  const [one, two, three] = [await clientOf(t), await clientOf(t), await clientOf(t)]
  const first = slots.take(one, DEFAULT_LIMITS)
  t.ok(first instanceof Promise)
  lease.add(1)
  t.equal(await first, undefined)
  const second = slots.take(two, DEFAULT_LIMITS)
  lease.add(0)
  t.match(await second, { status: 503, detail: '7 tunnels are open, the most there may be' })
  t.match(await slots.take(three, DEFAULT_LIMITS), { status: 503, detail: /cannot be counted/ })
  slots.free(one)
  t.equal(lease.giveBack(), 1, 'who was refused holds nothing')
  t.strictSame(said, ['ask 1', 'ask 1', 'ask 1'])
})

void tap.test('a client that goes while it waits leaves nothing behind', async (t) => {
  const { slots, said, lease, entries } = open(0)
  const client = await clientOf(t)
  const waiting = slots.take(client, DEFAULT_LIMITS)
  slots.free(client)
  lease.add(1)
  t.equal(await waiting, undefined)
  t.equal(lease.giveBack(), 1)
  const counted = await clientOf(t)
  const entering = slots.take(counted, COUNTED)
  slots.free(counted)
  entries.answer(1, undefined)
  t.equal(await entering, undefined)
  t.strictSame(said.slice(1), ['enter 1 127.0.0.1', 'leave 127.0.0.1'])
})

void tap.test('where clients are counted, each tunnel is asked for and told', async (t) => {
  const { slots, said, lease, entries } = open(1)
  const [one, two, three] = [await clientOf(t), await clientOf(t), await clientOf(t)]
  const first = slots.take(one, COUNTED)
  entries.answer(1, undefined)
  t.equal(await first, undefined)
  const second = slots.take(two, COUNTED)
  entries.answer(2, 5)
  t.match(await second, { status: 429, detail: /^this client has 5 tunnels/ })
  const third = slots.take(three, COUNTED)
  entries.answer(3, undefined)
  await new Promise((resolve) => setImmediate(resolve))
  lease.add(0)
  t.match(await third, { status: 503 }, 'it may have one more, but there is none')
  slots.free(one)
  t.equal(lease.giveBack(), 1)
  t.strictSame(said, [
    'enter 1 127.0.0.1',
    'enter 2 127.0.0.1',
    'enter 3 127.0.0.1',
    'ask 1',
    'leave 127.0.0.1',
    'leave 127.0.0.1',
  ])
})
