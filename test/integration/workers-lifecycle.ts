import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import path from 'node:path'
import tap, { type Test } from 'tap'
import { recordsOf } from '../support/event-records.ts'
import { pause } from '../support/proxy.ts'
import type { RawClient } from '../support/raw-client.ts'
import { BIN, isRunning, type Served, serve, waitFor } from '../support/serve-process.ts'
import { openUpstream } from '../support/upstream.ts'

const CONNECT = 'CONNECT allowed.test:22 HTTP/1.1\r\nHost: allowed.test:22\r\n\r\n'

const byText = (a: string, b: string) => (a < b ? -1 : 1)

interface Started {
  readonly served: Served
  readonly events: string
  /** The records so far. */
  readonly records: () => ReturnType<typeof recordsOf>
}

async function start(t: Test, workers: number, ...more: string[]): Promise<Started> {
  const events = path.join(t.testdir(), 'events.jsonl')
  const upstream = await openUpstream(t, ({ socket }) => socket.pipe(socket))
  const served = await serve(t, [
    `--workers=${workers}`,
    '--rule=allowed.test:22',
    `--resolve=allowed.test:127.0.0.1:${upstream.port}`,
    `--events=${events}`,
    ...more,
  ])
  return { served, events, records: () => recordsOf(t, readFileSync(events, 'utf8')) }
}

async function tunnel(client: RawClient): Promise<RawClient> {
  client.send(CONNECT)
  const { status } = await client.answer({ connect: true })
  if (status !== 200) throw new Error(`no tunnel: ${status}`)
  return client
}

async function untilGone(pids: readonly number[], withinMs: number): Promise<number> {
  const before = Date.now()
  while (pids.some(isRunning)) {
    if (Date.now() - before > withinMs) break
    await pause(5)
  }
  return Date.now() - before
}

void tap.test('a primary that is killed takes its workers along, at once', async (t) => {
  const { served } = await start(t, 2)
  const pids = served.workers()
  const clients: RawClient[] = []
  for (const pid of pids) clients.push(await tunnel(await served.clientOf(pid)))
  t.equal(await served.end('SIGKILL'), null)
  const ms = await untilGone(pids, 2_000)
  t.strictSame(pids.filter(isRunning), [], `${ms} ms`)
  for (const client of clients) await client.closed()
  // The last thread of the last process closes the socket.
  let refused: string | undefined
  for (let tries = 0; refused === undefined && tries < 100; tries++) {
    refused = await served.client().then(
      () => undefined,
      (error: NodeJS.ErrnoException) => error.code,
    )
    await pause(10)
  }
  t.equal(refused, 'ECONNREFUSED')
})

void tap.test('a worker that is killed is told and replaced; others serve on', async (t) => {
  const { served, records } = await start(t, 2, '--limit=drainTimeoutMs=200')
  const [one = 0, other = 0] = served.workers()
  const lost = await tunnel(await served.clientOf(one))
  const kept = await tunnel(await served.clientOf(other))
  process.kill(one, 'SIGKILL')
  await lost.closed()
  kept.send('SSH-2.0-here\r\n')
  await kept.until('SSH-2.0-here\r\n')
  await waitFor(() => served.workers().length === 2 || undefined)
  t.notOk(served.workers().includes(one))
  // Its replacement accepts too, on the same port.
  const [, next = 0] = served.workers()
  await waitFor(() => /another one is started/.exec(served.output().stderr) ?? undefined)
  t.match(served.output().stderr, `warning: worker ${one} was ended by SIGKILL; another one`)
  await pause(500)
  await tunnel(await served.clientOf(next))
  t.match(await served.stats(), { workers: 2, tunnels: 2 })
  t.equal(await served.end(), 0)
  const faults = records().filter(({ type }) => type === 'internal_error')
  t.match(
    faults.map(({ data }) => data),
    [{ message: `worker ${one} was ended by SIGKILL` }],
  )
  t.equal(records().filter(({ type }) => type === 'policy_loaded').length, 1)
})

void tap.test('a port that the system chose stays, even if all workers are killed', async (t) => {
  const { served } = await start(t, 3)
  for (const rounds of [3, 1]) {
    const pids = served.workers().slice(0, rounds)
    for (const pid of pids) process.kill(pid, 'SIGKILL')
    await waitFor(() => (served.workers().length === 3 && !pids.some(isRunning)) || undefined)
    let client: RawClient | undefined
    for (let tries = 0; client === undefined && tries < 100; tries++) {
      client = await served.client().catch(() => undefined)
      if (client === undefined) await pause(30)
    }
    await tunnel(client ?? (await served.client()))
  }
  // Four deaths, no more: each of the three serves there.
  await pause(700)
  t.equal(served.workers().length, 3)
  for (const pid of served.workers()) await tunnel(await served.clientOf(pid))
  t.equal(served.child.exitCode, null)
})

void tap.test('workers that keep ending end it all, with a code and a sentence', async (t) => {
  const { served, records } = await start(t, 2, '--limit=drainTimeoutMs=200')
  let killed = 0
  while (killed < 5) {
    const [pid] = served.workers()
    if (pid === undefined) break
    process.kill(pid, 'SIGKILL')
    killed++
    await untilGone([pid], 2_000)
    await pause(150)
  }
  t.equal(await served.ended(), 4)
  t.match(served.output().stderr, /error: 5 workers ended within 10 seconds; .*\[WORKERS_LOST\]/)
  t.equal(records().filter(({ type }) => type === 'internal_error').length, 5)
})

void tap.test('a signal to the whole group drains, and events are flushed', async (t) => {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    const { served, records } = await start(t, 3, '--limit=drainTimeoutMs=300')
    const pids = served.workers()
    const clients: RawClient[] = []
    for (const pid of pids) clients.push(await tunnel(await served.clientOf(pid)))
    const early = await tunnel(await served.client())
    process.kill(-(served.child.pid ?? 0), signal)
    await pause(50)
    t.ok(pids.every(isRunning), 'they finish what is under way')
    early.send('SSH-2.0-end\r\n')
    await early.until('SSH-2.0-end\r\n')
    early.end()
    t.equal(await served.ended(), 0)
    t.strictSame(pids.filter(isRunning), [])
    const closed = records().filter(({ type }) => type === 'tunnel_closed')
    t.strictSame(closed.map(({ data }) => String(data['cause'])).toSorted(byText), [
      'drain',
      'drain',
      'drain',
      'end',
    ])
    for (const client of clients) await client.closed()
  }
})

void tap.test('a second signal ends it at once', async (t) => {
  const { served } = await start(t, 2)
  const pids = served.workers()
  await tunnel(await served.client())
  served.child.kill('SIGTERM')
  await pause(100)
  t.equal(served.child.exitCode, null, 'it drains')
  t.equal(await served.end('SIGTERM'), 130)
  await untilGone(pids, 2_000)
  t.strictSame(pids.filter(isRunning), [])
})

void tap.test('a worker that does not answer is told, not waited for', async (t) => {
  const { served } = await start(t, 3)
  const [stuck = 0] = served.workers()
  process.kill(stuck, 'SIGSTOP')
  const started = Date.now()
  t.match(await served.stats(), { workers: 3, silent: 1 })
  t.ok(Date.now() - started < 2_500)
  process.kill(stuck, 'SIGCONT')
  t.notOk('silent' in (await served.stats()))
  // A signal to all of them ends none.
  const pids = served.workers()
  process.kill(-(served.child.pid ?? 0), 'SIGUSR2')
  await pause(100)
  t.ok(pids.every(isRunning))
  t.strictSame(served.workers(), pids)
})

void tap.test('a worker that does not drain is killed', async (t) => {
  const { served } = await start(t, 2, '--limit=drainTimeoutMs=0')
  const [stuck = 0] = served.workers()
  process.kill(stuck, 'SIGSTOP')
  const started = Date.now()
  t.equal(await served.end(), 0)
  t.ok(Date.now() - started < 6_000)
  t.notOk(isRunning(stuck))
})

void tap.test('what cannot start fails as it does without workers', async (t) => {
  const taken = createServer()
  taken.listen(0, '127.0.0.1')
  await once(taken, 'listening')
  t.teardown(() => taken.close())
  const { port } = taken.address() as AddressInfo
  const events = path.join(t.testdir(), 'events.jsonl')
  for (const args of [
    ['--rule=a.test', `--listen=127.0.0.1:${port}`],
    ['--rule=a.test', '--listen=127.0.0.1:0', '--token='],
    ['--rule=a.test', '--listen=0.0.0.0:0'],
    ['--rule=a.test', '--listen=127.0.0.1:0', '--limit=maxTunels=3'],
    ['--rule=a.test', '--listen=127.0.0.1:0', '--resolve=a.test'],
    ['--policy=/no/such/file', '--listen=127.0.0.1:0'],
    ['--rule=a.test', '--listen=127.0.0.1:0', '--ready-file=/no/such/folder/ready'],
  ]) {
    const alone = await outcomeOf([...args, `--events=${events}`])
    const together = await outcomeOf([...args, `--events=${events}`, '--workers=3'])
    t.not(alone.code, 0)
    t.strictSame(together, alone, args.join(' '))
  }
})

async function outcomeOf(args: readonly string[]): Promise<{ code: unknown; stderr: string }> {
  const child = spawn(process.execPath, [BIN, 'serve', ...args], {
    env: { PATH: process.env['PATH'] },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let stderr = ''
  child.stderr.on('data', (chunk) => (stderr += chunk))
  // Closed by everybody who had it: no worker is left.
  const [code] = (await once(child, 'close')) as unknown[]
  // The name of a draft has the process in it.
  return { code, stderr: stderr.replaceAll(String(child.pid), 'PID') }
}
