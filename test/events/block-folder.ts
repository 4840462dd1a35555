import tap from 'tap'
import { BlockFolder } from '../../src/events/block-folder.ts'
import type { EgressEvent, EventData } from '../../src/events/event.ts'
import { seeded, seedOf } from '../support/random.ts'

type Block = EventData<'network_blocked'>

const BLOCK: Block = {
  host: 'evil.test',
  port: 443,
  via: 'connect',
  generation: 1,
  reason: 'no-rule',
}

function openFolder() {
  const clock = { ms: 1_000_000 }
  const written: EgressEvent[] = []
  const folder = new BlockFolder(
    (event) => written.push(event),
    () => clock.ms,
  )
  const take = () => written.splice(0)
  return { folder, clock, take }
}

void tap.test('the first block is a record at once, further ones come as one count', async (t) => {
  const { folder, take } = openFolder()
  folder.add(BLOCK, false)
  t.strictSame(take(), [{ type: 'network_blocked', data: BLOCK }])
  for (let i = 0; i < 5; i++) folder.add(BLOCK, false)
  t.strictSame(take(), [])
  folder.flush()
  t.strictSame(take(), [{ type: 'network_blocked', data: { ...BLOCK, count: 5 } }])
  folder.add(BLOCK, false)
  t.strictSame(take(), [], 'it is still remembered')
  folder.flush()
  t.strictSame(take(), [{ type: 'network_blocked', data: { ...BLOCK, count: 1 } }])
})

void tap.test('a host without a further block is forgotten at the next flush', async (t) => {
  const { folder, take } = openFolder()
  folder.add(BLOCK, false)
  folder.flush()
  t.equal(take().length, 1, 'a flush alone writes nothing')
  folder.add(BLOCK, false)
  t.strictSame(take(), [{ type: 'network_blocked', data: BLOCK }], 'a first one again')
})

void tap.test('what differs in way in, host, port or reason is told apart', async (t) => {
  const { folder, take } = openFolder()
  const blocks: readonly Block[] = [
    BLOCK,
    { ...BLOCK, via: 'forward' },
    { ...BLOCK, host: 'evil2.test' },
    { ...BLOCK, port: 80 },
    { ...BLOCK, reason: 'port' },
    { ...BLOCK, host: '', port: 0 },
    { ...BLOCK, host: '443 evil.test', port: 4 },
    { ...BLOCK, host: 'evil.test', port: 4 },
  ]
  for (const block of blocks) folder.add(block, false)
  t.strictSame(
    take().map(({ data }) => data),
    blocks,
  )
  for (const block of blocks) folder.add(block, false)
  folder.flush()
  t.strictSame(
    take().map(({ data }) => data),
    blocks.map((block) => ({ ...block, count: 1 })),
  )
})

void tap.test('at most 100 records a second; the rest is one number', async (t) => {
  const { folder, clock, take } = openFolder()
  for (let i = 0; i < 250; i++) folder.add({ ...BLOCK, host: `h${i}.test` }, false)
  t.equal(take().length, 100)
  clock.ms += 1_000
  for (let i = 0; i < 20; i++) folder.add({ ...BLOCK, host: `later${i}.test` }, false)
  t.equal(take().length, 20, 'the next second has room again')
  folder.flush()
  t.strictSame(take(), [{ type: 'network_blocked_summary', data: { count: 150, quiet: 0 } }])
  folder.flush()
  t.strictSame(take(), [], 'it is told once')
})

void tap.test('a flush keeps to the rate too', async (t) => {
  const { folder, clock, take } = openFolder()
  for (let second = 0; second < 3; second++) {
    for (let i = 0; i < 100; i++) {
      for (let n = 0; n < 2; n++) folder.add({ ...BLOCK, host: `h${second}-${i}.test` }, false)
    }
    clock.ms += 1_000
  }
  t.equal(take().length, 300)
  folder.flush()
  const records = take()
  t.equal(records.filter(({ type }) => type === 'network_blocked').length, 100)
  t.strictSame(records.at(-1), {
    type: 'network_blocked_summary',
    data: { count: 200, quiet: 0 },
  })
})

void tap.test('10,000 hosts are remembered; the next one is only counted', async (t) => {
  const { folder, clock, take } = openFolder()
  for (let i = 0; i < 10_001; i++) {
    if (i % 100 === 0) clock.ms += 1_000
    folder.add({ ...BLOCK, host: `h${i}.test` }, false)
  }
  t.equal(take().length, 10_000)
  folder.add({ ...BLOCK, host: 'h3.test' }, false)
  clock.ms += 1_000
  folder.flush()
  t.strictSame(take(), [
    { type: 'network_blocked', data: { ...BLOCK, host: 'h3.test', count: 1 } },
    { type: 'network_blocked_summary', data: { count: 1, quiet: 0 } },
  ])
})

void tap.test('quiet blocks are a number alone, and take no room of the others', async (t) => {
  const { folder, take } = openFolder()
  for (let i = 0; i < 500; i++) folder.add({ ...BLOCK, host: `h${i}.test` }, true)
  t.strictSame(take(), [])
  folder.add(BLOCK, false)
  t.equal(take().length, 1)
  folder.flush()
  t.strictSame(take(), [{ type: 'network_blocked_summary', data: { count: 0, quiet: 500 } }])
})

void tap.test('every block is in exactly one record or count', async (t) => {
  const random = seeded(seedOf(20_260_801))
  for (let round = 0; round < 30; round++) {
    const { folder, clock, take } = openFolder()
    const steps = 200 + random.below(2_000)
    for (let i = 0; i < steps; i++) {
      folder.add({ ...BLOCK, host: `h${random.below(400)}.test` }, random.chance(5))
      if (random.chance(2)) clock.ms += random.below(2_000)
      if (random.chance(1)) folder.flush()
    }
    folder.flush()
    let told = 0
    for (const event of take()) {
      if (event.type === 'network_blocked') told += event.data.count ?? 1
      if (event.type === 'network_blocked_summary') told += event.data.count + event.data.quiet
    }
    t.equal(told, steps, `round ${round}`)
  }
})

void tap.test('a count says what holds for all that it counts, and nothing else', async (t) => {
  const { folder, take } = openFolder()
  const one = { ...BLOCK, reason: 'sni', sni: 'a.test', detail: 'a.test is not allowed' } as const
  const other = { ...one, sni: 'b.test', address: '192.0.2.1' }
  folder.add(one, false)
  folder.add(one, false)
  folder.add({ ...other, generation: 2 }, false)
  take()
  folder.flush()
  const { sni, ...common } = one
  t.strictSame(take(), [{ type: 'network_blocked', data: { ...common, count: 2 } }])
  folder.add(one, false)
  folder.flush()
  t.strictSame(take(), [{ type: 'network_blocked', data: { ...common, sni, count: 1 } }])
})
