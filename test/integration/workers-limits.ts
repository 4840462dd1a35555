import path from 'node:path'
import { readFileSync } from 'node:fs'
import tap, { type Test } from 'tap'
import { recordsOf } from '../support/event-records.ts'
import { pause } from '../support/proxy.ts'
import type { RawClient } from '../support/raw-client.ts'
import { type Served, serve, waitFor } from '../support/serve-process.ts'
import { openUpstream } from '../support/upstream.ts'

const CONNECT = 'CONNECT allowed.test:22 HTTP/1.1\r\nHost: allowed.test:22\r\n\r\n'
const UPGRADE =
  'GET http://allowed.test:22/ HTTP/1.1\r\nHost: allowed.test:22\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n'

async function openServed(t: Test, workers: number, ...limits: string[]): Promise<Served> {
  const upstream = await openUpstream(t)
  return serve(t, [
    `--workers=${workers}`,
    '--rule=allowed.test:22',
    `--resolve=allowed.test:127.0.0.1:${upstream.port}`,
    ...limits.map((one) => `--limit=${one}`),
  ])
}

/** Asks for a tunnel; one that is refused is closed. */
async function ask(client: RawClient, head = CONNECT): Promise<number> {
  client.send(head)
  const { status } = await client.answer({ connect: true })
  if (status !== 200) client.reset()
  return status
}

async function untilClosed(served: Served): Promise<void> {
  for (let tries = 0; tries < 100; tries++) {
    const { tunnels, connections } = await served.stats()
    if (tunnels === 0 && connections === 0) return
    await pause(20)
  }
  throw new Error('connections stay')
}

for (const workers of [2, 3, 4]) {
  void tap.test(`as many tunnels as there may be, exactly, over ${workers} workers`, async (t) => {
    for (const most of [1, 2, 3]) {
      const served = await openServed(t, workers, `maxTunnels=${most}`)
      const pids = served.workers()
      // Any worker can have all of them, whoever has had them before, and no other one can have one more.
      for (const [i, pid] of pids.entries()) {
        const clients: RawClient[] = []
        for (let n = 0; n < most; n++) {
          const client = await served.clientOf(pid)
          t.equal(await ask(client), 200, `tunnel ${n + 1} of ${most} in worker ${i}`)
          clients.push(client)
        }
        for (const other of pids) {
          t.equal(await ask(await served.clientOf(other)), 503, 'one too many')
        }
        for (const client of clients) client.reset()
        await untilClosed(served)
      }
      // All at once, wherever they come.
      const all = await Promise.all(
        Array.from({ length: 24 }, async () => ask(await served.client())),
      )
      t.strictSame(
        all.toSorted((a, b) => a - b),
        [...Array<number>(most).fill(200), ...Array<number>(24 - most).fill(503)],
        `${most} of 24`,
      )
      t.equal(await served.end('SIGKILL'), null)
    }
  })
}

void tap.test('a slot comes back however a tunnel ends, in whichever worker', async (t) => {
  const upstream = await openUpstream(t, ({ socket }) => socket.on('end', () => socket.end()))
  const served = await serve(t, [
    '--workers=2',
    '--rule=allowed.test:22',
    '--rule=gone.test:22',
    `--resolve=allowed.test:127.0.0.1:${upstream.port}`,
    '--resolve=gone.test:127.0.0.1:1',
    '--limit=maxTunnels=1',
  ])
  const pids = served.workers()
  for (const from of pids) {
    const ended = await served.clientOf(from)
    t.equal(await ask(ended), 200)
    ended.end()
    await ended.closed()
    const failed = await served.clientOf(from)
    t.equal(await ask(failed, CONNECT.replaceAll('allowed', 'gone')), 502)
    const upgraded = await served.clientOf(from)
    upgraded.send(UPGRADE)
    await upstream.connection(upstream.connections.length)
    for (const other of pids) {
      t.equal(await ask(await served.clientOf(other), UPGRADE), 503, 'it has its slot')
    }
    upgraded.reset()
    await untilClosed(served)
    for (const to of pids) {
      const next = await served.clientOf(to)
      t.equal(await ask(next), 200)
      next.reset()
      await untilClosed(served)
    }
  }
})

void tap.test('tunnels of one client are counted over all workers', async (t) => {
  const served = await openServed(t, 2, 'maxTunnelsPerClient=2')
  const [one = 0, other = 0] = served.workers()
  const first = await served.clientOf(one)
  t.equal(await ask(first), 200)
  const second = await served.clientOf(other)
  t.equal(await ask(second), 200)
  for (const worker of [one, other]) t.equal(await ask(await served.clientOf(worker)), 429)
  first.reset()
  await waitForTunnels(served, 1)
  const third = await served.clientOf(other)
  t.equal(await ask(third), 200)
  t.equal(await ask(await served.clientOf(one)), 429)
  // What a worker had is over with it.
  process.kill(other, 'SIGKILL')
  await third.closed()
  await waitFor(() => served.workers().length === 2 || undefined)
  t.equal(await ask(await served.clientOf(one)), 200)
  t.equal(await ask(await served.clientOf(one)), 200)
  t.equal(await ask(await served.clientOf(one)), 429)
})

async function waitForTunnels(served: Served, count: number): Promise<void> {
  for (let tries = 0; (await served.stats())['tunnels'] !== count; tries++) {
    if (tries > 100) throw new Error(`there never were ${count} tunnels`)
    await pause(20)
  }
}

void tap.test('the slots of a worker that is killed are given back', async (t) => {
  const served = await openServed(t, 2, 'maxTunnels=2')
  const [one = 0, other = 0] = served.workers()
  const clients = [await served.clientOf(one), await served.clientOf(one)]
  for (const client of clients) t.equal(await ask(client), 200)
  t.equal(await ask(await served.clientOf(other)), 503)
  process.kill(one, 'SIGKILL')
  for (const client of clients) await client.closed()
  await waitFor(() => !served.workers().includes(one) || undefined)
  t.equal(await ask(await served.clientOf(other)), 200)
  t.equal(await ask(await served.clientOf(other)), 200)
  t.equal(await ask(await served.clientOf(other)), 503)
})

void tap.test('without an answer of the primary a tunnel is refused, in time', async (t) => {
  for (const limit of ['maxTunnels=1', 'maxTunnelsPerClient=9']) {
    const served = await openServed(t, 2, limit)
    const [one = 0, other = 0] = served.workers()
    const before = await served.clientOf(one)
    t.equal(await ask(before), 200)
    served.child.kill('SIGSTOP')
    const started = Date.now()
    for (const client of [await served.clientOf(other), await served.clientOf(other)]) {
      client.send(CONNECT)
      const answer = await client.answer({ connect: true })
      t.equal(answer.status, 503, limit)
      t.match(answer.phrase, /cannot be counted at the moment/)
      client.reset()
    }
    t.ok(Date.now() - started < 3_500, `${Date.now() - started} ms`)
    served.child.kill('SIGCONT')
    if (limit === 'maxTunnels=1') {
      before.reset()
      await untilClosed(served)
    }
    // What was counted late is not counted for good.
    const after = await served.client()
    t.equal(await ask(after), 200)
    const more = Array.from({ length: 8 }, async () => ask(await served.client()))
    const got = (await Promise.all(more)).filter((status) => status === 200).length
    t.equal(got, limit === 'maxTunnels=1' ? 0 : 7)
  }
})

void tap.test('events that the primary does not take are counted', async (t) => {
  const events = path.join(t.testdir(), 'events.jsonl')
  const served = await serve(t, ['--workers=2', '--rule=allowed.test', `--events=${events}`])
  const asked = 20_000
  let denied = 0
  served.child.kill('SIGSTOP')
  const get = 'GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n'
  const clients = await Promise.all(Array.from({ length: 20 }, () => served.client()))
  for (let i = 0; i < asked / clients.length; i++) {
    await Promise.all(
      clients.map(async (client) => {
        client.send(get)
        if ((await client.answer()).status === 403) denied++
      }),
    )
  }
  for (const client of clients) client.end()
  t.equal(denied, asked, 'everybody is answered meanwhile')
  served.child.kill('SIGCONT')
  t.equal(await served.end(), 0)
  const records = recordsOf(t, readFileSync(events, 'utf8'))
  const sum = records.reduce((all, { type, data }) => {
    if (type === 'network_blocked') return all + Number(data['count'] ?? 1)
    return type === 'events_lost' ? all + Number(data['count']) : all
  }, 0)
  t.equal(sum, asked, 'each is recorded or told as lost')
  t.ok(records.some(({ type }) => type === 'events_lost'))
})
