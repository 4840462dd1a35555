import tap from 'tap'
import type { EgressProxyStats } from '../../src/proxy/egress-proxy.ts'
import { sumStats } from '../../src/workers/sum-stats.ts'

const ONE: EgressProxyStats = {
  generation: 1,
  connections: 3,
  tunnels: 2,
  lookups: 1,
  relay: { kind: 'pooled', why: 'it can' },
  allowed: 10,
  denied: { 'no-rule': 2, limit: 1 },
  bytesUp: 100,
  bytesDown: 1_000,
}

void tap.test('counters and levels are added, reasons one by one', async (t) => {
  const other = { ...ONE, denied: { 'no-rule': 5, loop: 1 } }
  t.strictSame(sumStats(2, [ONE, other]), {
    workers: 2,
    generation: 1,
    connections: 6,
    tunnels: 4,
    lookups: 2,
    relay: { kind: 'pooled', why: 'it can' },
    allowed: 20,
    denied: { 'no-rule': 7, limit: 1, loop: 1 },
    bytesUp: 200,
    bytesDown: 2_000,
  })
})

void tap.test('a worker that did not answer is told', async (t) => {
  t.match(sumStats(3, [ONE]), { workers: 3, silent: 2, tunnels: 2 })
  t.match(sumStats(1, []), { workers: 1, silent: 1, tunnels: 0 })
})
