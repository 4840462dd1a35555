import tap from 'tap'
import { readLimits } from '../../src/sandbox/limits.ts'

const MACHINE = 16 * 1024 ** 3

void tap.test('three quarters of the memory and 4096 processes', async (t) => {
  t.strictSame(readLimits({}, MACHINE), { memoryBytes: 12 * 1024 ** 3, pids: 4096, warnings: [] })
})

void tap.test('values that can be used', async (t) => {
  for (const [text, bytes] of [
    ['0', 0],
    ['512m', 512 * 1024 ** 2],
    ['4G', 4 * 1024 ** 3],
    ['8000k', 8000 * 1024],
    ['6291456', 6291456],
  ] as const) {
    const { memoryBytes, warnings } = readLimits({ ITERION_SANDBOX_MEMORY: text }, MACHINE)
    t.equal(memoryBytes, bytes, text)
    t.strictSame(warnings, [])
  }
  t.equal(readLimits({ ITERION_SANDBOX_PIDS: '0' }, MACHINE).pids, 0)
  t.equal(readLimits({ ITERION_SANDBOX_PIDS: '100' }, MACHINE).pids, 100)
})

void tap.test('others give one line, and the default applies', async (t) => {
  for (const text of ['', '-1', '1', '4t', '1.5g', 'much', '4g\n', '99999999999999999g']) {
    const { memoryBytes, warnings } = readLimits({ ITERION_SANDBOX_MEMORY: text }, MACHINE)
    t.equal(memoryBytes, 12 * 1024 ** 3, text)
    t.equal(warnings.length, 1, text)
    t.match(warnings[0], /^ITERION_SANDBOX_MEMORY=".*" is no number of bytes.*default 12884901888/)
  }
  for (const text of ['', '-1', '1k', '12345678']) {
    const { pids, warnings } = readLimits({ ITERION_SANDBOX_PIDS: text }, MACHINE)
    t.equal(pids, 4096, text)
    t.equal(warnings.length, 1, text)
  }
})
