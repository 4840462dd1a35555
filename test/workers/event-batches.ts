import tap from 'tap'
import type { EgressEvent } from '../../src/events/event.ts'
import { EventBatches } from '../../src/workers/event-batches.ts'

const event = (message: string): EgressEvent => ({ type: 'internal_error', data: { message } })

/** Batches over a channel that takes them when it is told to. */
function open(mostWaiting?: number) {
  const sent: EgressEvent[][] = []
  const taken: (() => void)[] = []
  const batches = new EventBatches(
    (events, done) => {
      sent.push([...events])
      taken.push(done)
    },
    { now: () => 0, ...(mostWaiting !== undefined && { mostWaiting }) },
  )
  const take = () => {
    for (const done of taken.splice(0)) done()
  }
  return { batches, sent, take }
}

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

void tap.test('the first goes at once, those that come together go together', async (t) => {
  const { batches, sent, take } = open()
  for (const message of ['a', 'b', 'c']) batches.add(event(message))
  t.strictSame(sent, [[event('a')]])
  take()
  await sleep(30)
  t.strictSame(sent, [[event('a')], [event('b'), event('c')]])
  take()
  await sleep(30)
  batches.add(event('d'))
  t.equal(sent.length, 3, 'after a pause it is at once again')
})

void tap.test('many go without waiting', async (t) => {
  const { batches, sent } = open()
  for (let i = 0; i < 65; i++) batches.add(event(String(i)))
  t.strictSame(
    sent.map(({ length }) => length),
    [1, 64],
  )
})

void tap.test('what the channel does not take is counted, and told when it does', async (t) => {
  const { batches, sent, take } = open(4)
  for (let i = 0; i < 10; i++) batches.add(event(String(i)))
  await sleep(30)
  t.equal(sent.flat().length, 4)
  const last = sent.length
  take()
  const at = new Date(0).toISOString()
  const loss = { type: 'events_lost', data: { count: 6, from_ts: at, to_ts: at } }
  t.strictSame(sent.slice(last), [[loss]])
  batches.add(event('after'))
  const flushed = batches.flush()
  take()
  await flushed
  t.strictSame(sent.flat().at(-1), event('after'))
})

void tap.test('a flush is over when the channel has everything, the loss too', async (t) => {
  const { batches, sent, take } = open(2)
  for (let i = 0; i < 3; i++) batches.add(event(String(i)))
  let isFlushed = false
  const flushed = batches.flush().then(() => (isFlushed = true))
  await sleep(5)
  t.notOk(isFlushed)
  take()
  await sleep(5)
  t.notOk(isFlushed, 'the loss is on its way')
  take()
  await flushed
  t.strictSame(
    sent.flat().map(({ type }) => type),
    ['internal_error', 'internal_error', 'events_lost'],
  )
  const { batches: empty } = open()
  await empty.flush()
})
