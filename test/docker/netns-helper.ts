import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import tap, { type Test } from 'tap'
import { programFile } from '../../src/door/program-file.ts'

// A namespace with nothing but loopback, as that of a sealed container.
const PARENT = `
const [helper] = process.argv.slice(1)
const child = require('node:child_process').spawn(
  'unshare',
  ['--map-root-user', '--net', 'sh', '-c', 'ip link set lo up; exec "$0" "$@"', process.execPath, helper, 'open'],
  { stdio: ['ignore', 'ignore', 'ignore', 'ipc'], env: { PATH: process.env.PATH } },
)
process.stdout.write(String(child.pid))
setTimeout(() => process.exit(), 20_000)
`

/** Starts a helper whose parent is killed so many milliseconds later. Answers whether it is gone soon after. */
async function orphan(t: Test, delayMs: number): Promise<boolean> {
  const parent = spawn(process.execPath, ['-e', PARENT, programFile('netns-helper')], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { PATH: process.env['PATH'] },
  })
  t.teardown(() => parent.kill('SIGKILL'))
  const pid = await new Promise<number>((resolve) => {
    parent.stdout.once('data', (text: Buffer) => resolve(Number(text.toString())))
  })
  await new Promise((resolve) => setTimeout(resolve, delayMs))
  parent.kill('SIGKILL')
  for (let waited = 0; waited < 5_000; waited += 50) {
    if (!existsSync(`/proc/${pid}`)) return true
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  process.kill(pid, 'SIGKILL')
  return false
}

void tap.test('a helper whose parent is killed ends, whenever that was', async (t) => {
  for (let delayMs = 0; delayMs < 100; delayMs += 20) {
    // A few at once: each takes its time to notice.
    const delays = [delayMs, delayMs + 5, delayMs + 10, delayMs + 15]
    const areGone = await Promise.all(delays.map((one) => orphan(t, one)))
    t.strictSame(areGone, [true, true, true, true], `killed after ${delays.join(', ')} ms`)
  }
})
