import { readFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { hello } from '../support/client-hello.ts'
import { recordsOf } from '../support/event-records.ts'
import { valuesOf } from '../support/http-answer.ts'
import type { RawClient } from '../support/raw-client.ts'
import { serve, waitFor } from '../support/serve-process.ts'
import { fieldsOf, openHttpUpstream, openUpstream } from '../support/upstream.ts'

const ECHO = (connection: RawClient) => connection.socket.pipe(connection.socket)
const DENIED = 'CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n'
const TUNNEL = 'CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n'

void tap.test('several workers serve as one: port, events, folded blocks, counters', async (t) => {
  const upstream = await openUpstream(t, ECHO)
  const events = path.join(t.testdir(), 'events.jsonl')
  const served = await serve(t, [
    '--workers=3',
    '--rule=allowed.test',
    `--resolve=allowed.test:127.0.0.1:${upstream.port}`,
    `--events=${events}`,
    '--run-id=r1',
  ])
  const workers = served.workers()
  t.equal(workers.length, 3)
  const flight = hello('allowed.test')
  const carry = async (client: RawClient) => {
    client.send(TUNNEL)
    t.equal((await client.answer({ connect: true })).status, 200)
    client.send(flight)
    await client.until(flight.toString('latin1'))
    client.end()
    await client.closed()
  }
  // Each of them serves, and then whoever comes first.
  for (const worker of workers) {
    await carry(await served.clientOf(worker))
    const refused = await served.clientOf(worker)
    refused.send(DENIED)
    t.equal((await refused.answer()).status, 403)
    refused.reset()
  }
  for (let i = 0; i < 12; i++) {
    const clients = await Promise.all(Array.from({ length: 20 }, () => served.client()))
    await Promise.all(clients.map(carry))
  }
  await waitFor(() => upstream.open === 0 || undefined)
  const stats = await served.stats()
  t.match(stats, {
    workers: 3,
    generation: 1,
    connections: 0,
    tunnels: 0,
    allowed: 243,
    denied: { 'no-rule': 3 },
    bytesUp: 243 * flight.length,
    bytesDown: 243 * flight.length,
  })
  t.equal(await served.end(), 0)
  const records = recordsOf(t, readFileSync(events, 'utf8'))
  t.match(records[0], { type: 'policy_loaded', run_id: 'r1', data: { generation: 1, rules: 1 } })
  const of = (type: string) => records.filter((one) => one.type === type)
  t.equal(of('policy_loaded').length, 1)
  t.equal(of('tunnel_closed').length, 243)
  t.match(
    of('network_blocked').map(({ data }) => data),
    [{ host: 'evil.test' }, { host: 'evil.test', count: 2 }],
  )
  t.equal(records.length, 1 + 243 + 2)
})

void tap.test('events come while it serves, not only at its end', async (t) => {
  const events = path.join(t.testdir(), 'events.jsonl')
  const served = await serve(t, ['--workers=2', '--rule=allowed.test', `--events=${events}`])
  for (const host of ['a.test', 'b.test', 'c.test', 'd.test']) {
    const client = await served.client(DENIED.replaceAll('evil.test', host))
    t.equal((await client.answer()).status, 403)
  }
  const text = () => readFileSync(events, 'utf8')
  await waitFor(() => text().split('\n').length === 6 || undefined)
  t.equal(recordsOf(t, text()).length, 5)
})

void tap.test(
  'a request that comes back through another worker is a loop all the same',
  async (t) => {
    const upstream = await openHttpUpstream(t)
    const served = await serve(t, [
      '--workers=2',
      '--rule=allowed.test:80',
      `--resolve=allowed.test:127.0.0.1:${upstream.port}`,
    ])
    const get = (more: string) =>
      `GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n${more}\r\n`
    const [one = 0, other = 0] = served.workers()
    for (const [i, [from, to]] of [
      [one, other],
      [other, one],
    ].entries()) {
      const first = await served.clientOf(from ?? 0)
      first.send(get(''))
      t.equal((await first.answer()).status, 200)
      const [via = ''] = fieldsOf(await upstream.request(i), 'via')
      const second = await served.clientOf(to ?? 0)
      second.send(get(`Via: ${via}\r\n`))
      const answer = await second.answer()
      t.equal(answer.status, 508)
      t.strictSame(valuesOf(answer, 'x-iterion-reason'), ['loop'])
    }
  },
)

void tap.test('the token reaches workers by their channel alone', async (t) => {
  const dir = t.testdir({ token: 'TOK123\n' })
  for (const [args, env] of [
    [[`--token-file=${path.join(dir, 'token')}`], {}],
    [[], { ITERION_EGRESS_TOKEN: 'TOK123' }],
    [['--token=TOK123'], {}],
  ] as const) {
    const served = await serve(t, ['--workers=2', '--rule=allowed.test', ...args], { env })
    for (const worker of served.workers()) {
      for (const file of ['environ', 'cmdline']) {
        const text = readFileSync(`/proc/${worker}/${file}`, 'latin1')
        t.ok(text.length > 0)
        t.notMatch(text, 'TOK123', `${file} of a worker, ${JSON.stringify([args, env])}`)
        t.notMatch(text, 'ITERION_EGRESS_TOKEN')
      }
      for (const [field, status] of [
        ['', 407],
        ['Proxy-Authorization: Bearer TOK124\r\n', 407],
        ['Proxy-Authorization: Bearer TOK123\r\n', 403],
      ] as const) {
        const client = await served.clientOf(worker)
        client.send(DENIED.replace(/\r\n$/, `${field}\r\n`))
        t.equal((await client.answer()).status, status)
        client.reset()
      }
    }
    t.equal(await served.end(), 0)
    t.notMatch(served.output().stdout + served.output().stderr, 'TOK123')
  }
})

void tap.test('what serve is told holds in every worker', async (t) => {
  const upstream = await openHttpUpstream(t)
  const events = path.join(t.testdir(), 'events.jsonl')
  const served = await serve(
    t,
    [
      '--workers=2',
      '--rule=allowed.test:80',
      `--resolve=allowed.test:127.0.0.1:${upstream.port}`,
      '--insecure-no-auth',
      '--limit=maxHeadBytes=400',
      '--relay=streams',
      '--audit',
      `--events=${events}`,
    ],
    { listen: '0.0.0.0:0' },
  )
  const get = (more: string) =>
    `GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nConnection: close\r\n${more}\r\n`
  for (const worker of served.workers()) {
    const allowed = await served.clientOf(worker)
    allowed.send(get(''))
    t.equal((await allowed.answer()).status, 200)
    const long = await served.clientOf(worker)
    long.send(get(`X: ${'a'.repeat(500)}\r\n`))
    t.equal((await long.answer()).status, 431)
    long.reset()
  }
  t.match(await served.stats(), {
    workers: 2,
    allowed: 2,
    relay: { kind: 'streams', why: 'asked for' },
  })
  t.equal(await served.end(), 0)
  const records = recordsOf(t, readFileSync(events, 'utf8'))
  t.equal(records.filter(({ type }) => type === 'network_allowed').length, 2)
})

void tap.test('one is this process alone', async (t) => {
  for (const args of [[], ['--workers=1']]) {
    const served = await serve(t, ['--rule=allowed.test', ...args])
    t.strictSame(served.workers(), [])
    t.notOk('workers' in (await served.stats()))
    t.equal(await served.end(), 0)
  }
})
