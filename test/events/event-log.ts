import { spawnSync } from 'node:child_process'
import fs, {
  closeSync,
  mkdtempSync,
  rmSync,
  existsSync,
  chmodSync,
  lstatSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import tap from 'tap'
import { EgressError } from '../../src/errors.ts'
import { openEventLog } from '../../src/events/event-log.ts'
import type { EgressEvent } from '../../src/events/event.ts'
import { recordsOf, wide } from '../support/event-records.ts'
import { makeFifo, openCount, openFifo, openReader, readOn, readSome } from '../support/fifo.ts'
import { pause, until } from '../support/proxy.ts'

const blocked = (host: string, more: { quiet?: boolean } = {}): EgressEvent => ({
  type: 'network_blocked',
  data: { host, port: 443, via: 'connect', generation: 1, reason: 'no-rule' },
  ...more,
})

function code(action: () => unknown): string {
  try {
    action()
  } catch (error) {
    return error instanceof EgressError ? error.code : String(error)
  }
  return 'nothing was thrown'
}

void tap.test('each event is one line with version, number, time and run', async (t) => {
  const path = join(t.testdir(), 'events.jsonl')
  const log = openEventLog(path, { runId: 'run-7', now: () => Date.UTC(2027, 0, 2, 3, 4, 5, 6) })
  log.write({ type: 'policy_loaded', data: { generation: 1, digest: 'd', rules: 3 } })
  log.write(blocked('evil.test'))
  await log.close()
  const head = { v: 1, ts: '2027-01-02T03:04:05.006Z', run_id: 'run-7' }
  t.strictSame(recordsOf(t, readFileSync(path, 'utf8')), [
    { ...head, seq: 1, type: 'policy_loaded', data: { generation: 1, digest: 'd', rules: 3 } },
    { ...head, seq: 2, type: 'network_blocked', data: blocked('evil.test').data },
  ])
})

void tap.test('text of any kind stays on its line', async (t) => {
  const path = join(t.testdir(), 'events.jsonl')
  const log = openEventLog(path)
  const odd = ['a\nb', 'a\r\nb', '\u2028\u2029', '\0\u001b[31m', '\ud800', '"}\n{"v":1', 'ü😀']
  for (const message of odd) log.write({ type: 'policy_rejected', data: { message } })
  await log.close()
  const records = recordsOf(t, readFileSync(path, 'utf8'))
  t.strictSame(
    records.map(({ data }) => data['message']),
    odd,
  )
  t.equal(records[0]?.run_id, null)
})

void tap.test('a file is made for its owner alone, and appended to', async (t) => {
  const before = process.umask(0)
  t.teardown(() => process.umask(before))
  const path = join(t.testdir(), 'events.jsonl')
  await openEventLog(path).close()
  t.equal(lstatSync(path).mode & 0o777, 0o600)
  writeFileSync(path, 'what was there\n')
  const log = openEventLog(path)
  log.write(wide(1, 1))
  await log.close()
  t.match(readFileSync(path, 'utf8'), /^what was there\n\{"v":1,"seq":1,.*\}\n$/)
})

void tap.test('what is no file of ours is refused and left alone', async (t) => {
  const dir = t.testdir({ target: 'untouched\n', folder: {} })
  const at = (name: string) => join(dir, name)
  symlinkSync('target', at('link'))
  symlinkSync('nowhere', at('dangling'))
  // The path of a socket has about 100 characters, so it is made where paths are short.
  const short = mkdtempSync(join(tmpdir(), 'egress-'))
  const server = createServer().listen(join(short, 's'))
  t.teardown(() => {
    server.close()
    rmSync(short, { recursive: true, force: true })
  })
  await until('the socket is there', () => existsSync(join(short, 's')))
  symlinkSync(short, at('short'))
  for (const name of ['link', 'dangling', 'folder', 'short/s', 'missing/events.jsonl', '']) {
    t.equal(
      code(() => openEventLog(name === '' ? '' : at(name))),
      'EVENTS_FAILED',
      name,
    )
  }
  t.equal(readFileSync(at('target'), 'utf8'), 'untouched\n')
  t.notOk(existsSync(at('nowhere')), 'a dangling link makes no file')
  t.equal(
    code(() => openEventLog(makeFifo(t))),
    'EVENTS_FAILED',
    'a pipe without a reader',
  )
})

void tap.test('a file that may not be written to is refused', async (t) => {
  if (process.getuid?.() === 0) {
    t.pass('root may write to every file')
    return
  }
  const path = join(t.testdir({ 'events.jsonl': '' }), 'events.jsonl')
  chmodSync(path, 0o400)
  t.equal(
    code(() => openEventLog(path)),
    'EVENTS_FAILED',
  )
})

void tap.test('repeated blocks are folded, and the count is written on close', async (t) => {
  const path = join(t.testdir(), 'events.jsonl')
  const log = openEventLog(path)
  for (let i = 0; i < 4; i++) log.write(blocked('evil.test'))
  for (let i = 0; i < 3; i++) log.write(blocked('quiet.test', { quiet: true }))
  log.write(wide(1, 1))
  await log.close()
  const records = recordsOf(t, readFileSync(path, 'utf8'))
  t.strictSame(
    records.map(({ type, data }) => [type, data['count'], data['quiet']]),
    [
      ['network_blocked', undefined, undefined],
      ['policy_rejected', undefined, undefined],
      ['network_blocked', 3, undefined],
      ['network_blocked_summary', 0, 3],
    ],
  )
})

void tap.test('folded blocks are written at each interval too', async (t) => {
  const path = join(t.testdir(), 'events.jsonl')
  const log = openEventLog(path, { foldIntervalMs: 20 })
  log.write(blocked('evil.test'))
  log.write(blocked('evil.test'))
  await until('the count is written', () => readFileSync(path, 'utf8').includes('"count":1'))
  await log.close()
})

void tap.test('closing twice is closing once, and later events are dropped', async (t) => {
  const path = join(t.testdir(), 'events.jsonl')
  const log = openEventLog(path)
  log.write(wide(1, 1))
  t.equal(log.close(), log.close())
  await log.close()
  log.write(wide(2, 1))
  t.equal(recordsOf(t, readFileSync(path, 'utf8')).length, 1)
})

void tap.test('many logs in one process do not mix, and leave nothing open', async (t) => {
  const dir = t.testdir()
  const paths = Array.from({ length: 30 }, (_, i) => join(dir, `${i}.jsonl`))
  const logs = paths.map((path, i) => openEventLog(path, { runId: String(i) }))
  for (let n = 0; n < 20; n++) for (const log of logs) log.write(wide(n, 10))
  await Promise.all(logs.map((log) => log.close()))
  for (const [i, path] of paths.entries()) {
    const records = recordsOf(t, readFileSync(path, 'utf8'))
    t.strictSame(
      [records.length, new Set(records.map((r) => r.run_id))],
      [20, new Set([String(i)])],
    )
  }
  t.equal(
    paths.reduce((sum, path) => sum + openCount(path), 0),
    0,
  )
})

void tap.test(
  'a reader that does not read: writing goes on, and what was lost is one record',
  async (t) => {
    const { path, reader } = openFifo(t)
    const log = openEventLog(path, { maxPendingBytes: 200_000 })
    const sent = 1_000
    for (let i = 0; i < sent; i++) log.write(wide(i))
    const reading = readOn(reader)
    await until('there is room again', () => reading.text.includes('events_lost'))
    log.write(wide(sent))
    await log.close()
    await reading.ended
    const records = recordsOf(t, reading.text)
    const lost = records.filter(({ type }) => type === 'events_lost')
    t.equal(lost.length, 1)
    const { count, from_ts: from, to_ts: to } = lost[0]?.data ?? {}
    t.equal(records.length - 1 + Number(count), sent + 1, 'each is written or counted')
    t.ok(Number(count) > 500)
    t.ok(String(from) <= String(to))
    t.match(records.at(-1)?.data['message'], new RegExp(`^${sent} `), 'later ones are written')
  },
)

void tap.test('what was lost is told on close', async (t) => {
  const { path, reader } = openFifo(t)
  const log = openEventLog(path, { maxPendingBytes: 200_000 })
  const sent = 500
  for (let i = 0; i < sent; i++) log.write(wide(i))
  const reading = readOn(reader)
  await log.close()
  await reading.ended
  const records = recordsOf(t, reading.text)
  const last = records.at(-1)
  t.equal(last?.type, 'events_lost')
  t.equal(records.length - 1 + Number(last?.data['count']), sent)
})

void tap.test('a reader that never reads: close gives up, and the pipe is let go of', async (t) => {
  for (const count of [100, 1_000]) {
    const { path, reader } = openFifo(t)
    const log = openEventLog(path, { maxPendingBytes: 200_000, closeTimeoutMs: 150 })
    for (let i = 0; i < count; i++) log.write(wide(i))
    await log.close()
    await until('the reader alone has it', () => openCount(path) === 1)
    closeSync(reader)
  }
})

void tap.test('a reader that leaves: the next one gets later events', async (t) => {
  const { path, reader } = openFifo(t)
  const log = openEventLog(path, { maxPendingBytes: 50_000 })
  log.write(wide(0, 1))
  await until('the first record is there', () => readSome(reader).includes('"seq":1'))
  closeSync(reader)
  // More than may wait: from here on every record is lost, and none of them fits.
  for (let i = 1; i < 200; i++) {
    log.write(wide(i))
    if (i % 20 === 0) await pause(1)
  }
  const reading = readOn(openReader(path))
  await pause(20)
  log.write(wide(200))
  await until('it writes again', () => reading.text.includes('events_lost'))
  log.write(wide(201))
  await log.close()
  await reading.ended
  t.match(reading.text, /"message":"201 /)
  const numbers = [...reading.text.matchAll(/^\{"v":1,"seq":(\d+),/gm)].map(([, n]) => Number(n))
  const gaps = numbers.filter((seq, i) => i > 0 && seq !== (numbers[i - 1] ?? 0) + 1)
  t.strictSame(gaps, [], 'no number is left out')
})

void tap.test('a full disk neither throws nor holds the close up', async (t) => {
  if (!existsSync('/dev/full')) {
    t.pass('there is no /dev/full here')
    return
  }
  for (const count of [1, 9_000]) {
    const log = openEventLog('/dev/full')
    for (let i = 0; i < count; i++) log.write(wide(i))
    await pause(10)
    log.write(wide(count))
    await log.close()
    t.equal(openCount('/dev/full'), 0, `${count} records: the file is closed`)
  }
})

void tap.test('a process that exits writes first what waits, and is not held up', async (t) => {
  const library = new URL('../../dist/index.js', import.meta.url).href
  const exitAfter = (ms: number, files: readonly string[]) => {
    const script = `import { openEventLog } from ${JSON.stringify(library)}
const logs = ${JSON.stringify(files)}.map((file) => openEventLog(file))
const event = { type: 'policy_rejected', data: { message: 'm'.repeat(900) } }
for (const log of logs) for (let i = 0; i < 50; i++) log.write(event)
${ms === 0 ? '' : `await new Promise((resolve) => setTimeout(resolve, ${ms}))`}
process.exit(3)`
    const args = ['--input-type=module', '--eval', script]
    const env = { PATH: process.env['PATH'] }
    return spawnSync(process.execPath, args, { env, encoding: 'utf8', timeout: 20_000 })
  }
  const folder = t.testdir()
  const files = Array.from({ length: 20 }, (_, i) => join(folder, `${i}.jsonl`))
  t.match(exitAfter(0, files), { status: 3, stderr: '' })
  for (const file of files) t.equal(recordsOf(t, readFileSync(file, 'utf8')).length, 50)
  if (existsSync('/dev/full')) {
    t.match(exitAfter(100, ['/dev/full']), { status: 3, stderr: '' }, 'of a full disk')
  }
})

void tap.test(
  'the first record is written at once, those that come together go together',
  async (t) => {
    const file = join(t.testdir(), 'events.jsonl')
    const { write } = fs
    let writes = 0
    t.teardown(() => (fs.write = write))
    fs.write = ((...args: Parameters<typeof write>) => {
      writes++
      return write(...args)
    }) as typeof write
    const log = openEventLog(file)
    const event = { type: 'policy_rejected', data: { message: 'no' } } as const
    log.write(event)
    t.equal(writes, 1)
    for (let i = 0; i < 1_000; i++) log.write(event)
    t.equal(writes, 1)
    await new Promise((resolve) => setTimeout(resolve, 60))
    t.equal(recordsOf(t, readFileSync(file, 'utf8')).length, 1_001, 'without being closed')
    t.ok(writes <= 12, `${writes} writes`)
    await log.close()
  },
)
