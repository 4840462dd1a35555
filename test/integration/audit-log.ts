import { spawn } from 'node:child_process'
import { closeSync, existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import tap, { type Test } from 'tap'
import { recordsOf } from '../support/event-records.ts'
import { openFifo } from '../support/fifo.ts'

const WRITER = fileURLToPath(new URL('../support/event-writer.ts', import.meta.url))

interface Ended {
  readonly status: number | null
  readonly signal: string | null
}

/** Runs the writing program; its standard output is a pipe, read or not. */
async function runWriter(
  t: Test,
  args: readonly string[],
  { isRead = true } = {},
): Promise<Ended & { stdout: string }> {
  const child = spawn(process.execPath, [...process.execArgv, WRITER, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  let stdout = ''
  if (isRead) child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString('utf8')))
  const timer = setTimeout(() => child.kill('SIGKILL'), 30_000)
  const ended = await new Promise<Ended>((resolve) => {
    child.once('exit', (status, signal) => resolve({ status, signal }))
  })
  clearTimeout(timer)
  if (isRead && !child.stdout.readableEnded) {
    await new Promise((resolve) => child.stdout.once('close', resolve))
  }
  child.stdout.destroy()
  return { ...ended, stdout }
}

void tap.test('a process that ends without closing its log writes what waits', async (t) => {
  const path = join(t.testdir(), 'events.jsonl')
  t.equal((await runWriter(t, [path, '500', 'exit'])).status, 7)
  t.equal(recordsOf(t, readFileSync(path, 'utf8')).length, 500)
})

void tap.test('a full disk does not hold the end of the process up', async (t) => {
  if (!existsSync('/dev/full')) {
    t.pass('there is no /dev/full here')
    return
  }
  t.match(await runWriter(t, ['/dev/full', '500', 'exit']), { status: 7, signal: null })
  t.match(await runWriter(t, ['/dev/full', '500']), { status: 0, signal: null })
})

void tap.test('a pipe that nobody reads does not hold the end of the process up', async (t) => {
  const { path, reader } = openFifo(t)
  t.match(await runWriter(t, [path, '500', 'exit']), { status: 7, signal: null })
  closeSync(reader)
})

void tap.test('"-" is standard output', async (t) => {
  const { status, stdout } = await runWriter(t, ['-', '500'])
  t.equal(status, 0)
  t.equal(recordsOf(t, stdout).length, 500)
})

void tap.test('standard output that nobody reads holds nothing up', async (t) => {
  for (const ending of ['close', 'exit']) {
    const { signal } = await runWriter(t, ['-', '500', ending], { isRead: false })
    t.equal(signal, null, ending)
  }
})
