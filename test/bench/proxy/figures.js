// The figures, each a load that one proxy carries: what it cost it, and what its clients saw.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { cpuOf, memoryOf } from './processes.js'

const run = promisify(execFile)
const MEBIBYTE = 1024 ** 2

/** What is measured, in the order of the table. `unit` of `cost` is the proxy's processor time per exchange, or per GiB. */
export const FIGURES = [
  {
    key: 'connect-name',
    label: 'CONNECT by name, 64 at a time',
    mode: 'connect',
    slots: 64,
    count: 20_000,
    by: 'name',
  },
  {
    key: 'connect-address',
    label: 'CONNECT by address, 64 at a time',
    mode: 'connect',
    slots: 64,
    count: 4_000,
    by: 'address',
  },
  {
    key: 'denied',
    label: 'CONNECT that is denied, 64 at a time',
    mode: 'deny',
    slots: 64,
    count: 8_000,
    by: 'denied',
  },
  {
    key: 'get',
    label: 'forwarded GET, keep-alive, 16 at a time',
    mode: 'get',
    slots: 16,
    count: 10_000,
    by: 'name',
  },
  {
    key: 'one-down',
    label: 'one tunnel, down',
    mode: 'down',
    slots: 1,
    bytes: 512 * MEBIBYTE,
    by: 'name',
  },
  {
    key: 'one-up',
    label: 'one tunnel, up',
    mode: 'up',
    slots: 1,
    bytes: 512 * MEBIBYTE,
    by: 'name',
  },
  {
    key: 'one-both',
    label: 'one tunnel, both ways',
    mode: 'both',
    slots: 1,
    bytes: 256 * MEBIBYTE,
    by: 'name',
  },
  {
    key: 'eight-down',
    label: 'eight tunnels, down',
    mode: 'down',
    slots: 8,
    bytes: 64 * MEBIBYTE,
    by: 'name',
  },
  {
    key: 'eight-up',
    label: 'eight tunnels, up',
    mode: 'up',
    slots: 8,
    bytes: 64 * MEBIBYTE,
    by: 'name',
  },
  {
    key: 'eight-both',
    label: 'eight tunnels, both ways',
    mode: 'both',
    slots: 8,
    bytes: 32 * MEBIBYTE,
    by: 'name',
  },
  {
    key: 'latency',
    label: 'CONNECT and first byte, one at a time',
    mode: 'connect',
    slots: 1,
    count: 1_000,
    by: 'name',
  },
]

/** How many workers are measured beside each other, and by what. */
export const WORKERS = {
  counts: [1, 2],
  figure: { mode: 'connect', slots: 64, count: 8_000, by: 'name' },
}

/**
 * Puts one load on one proxy.
 *
 * @param proxy `ADDRESS:PORT`, or `direct`
 * @param pid the proxy's process; undefined for none
 */
export async function measure(load, figure, proxy, pid, targets) {
  const { mode, slots, count, bytes, by } = figure
  const before = pid === undefined ? 0 : cpuOf(pid)
  const { stdout } = await run('taskset', [
    '-c',
    load.core,
    load.program,
    mode,
    proxy,
    targets[by],
    String(slots),
    String(bytes ?? count),
  ])
  // What is closed on the way costs too.
  await sleep(100)
  const cpu = pid === undefined ? 0 : cpuOf(pid) - before
  const { done, failed, seconds, p50_ms: p50, p99_ms: p99 } = JSON.parse(stdout)
  if (bytes === undefined) {
    return { failed, cost: cpu / 1e3 / Math.max(1, done), rate: done / seconds, p50, p99 }
  }
  const ways = mode === 'both' ? 2 : 1
  const gib = (bytes * slots * ways) / 1024 ** 3
  return { failed, cost: cpu / 1e9 / gib, rate: gib / seconds }
}

/** Opens tunnels that nobody uses, and says what each holds. */
export async function measureIdle(load, proxy, pid, target, tunnels) {
  const before = memoryOf(pid)
  const child = spawn(
    'taskset',
    ['-c', load.core, load.program, 'idle', proxy, target, String(tunnels)],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  )
  const ended = once(child, 'exit')
  const [text] = await once(child.stdout, 'data')
  const { open, failed } = JSON.parse(text.toString())
  await sleep(1_000)
  const bytes = (memoryOf(pid) - before) / Math.max(1, open)
  child.stdin.end()
  await ended
  return { open, failed, bytes }
}
