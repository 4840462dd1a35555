import tap, { type Test } from 'tap'
import { compilePolicy } from '../../src/policy/compile.ts'
import type { FromWorker, ToWorker, WorkerSetup } from '../../src/workers/messages.ts'
import { runWorker } from '../../src/workers/worker.ts'
import { ruleOf } from '../support/policy-of.ts'
import { openRaw } from '../support/raw-client.ts'
import { until } from '../support/proxy.ts'

const PARTS = { mode: 'allowlist', rules: [ruleOf('allowed.test', 1)] } as const
const SETUP: WorkerSetup = {
  listen: { host: '127.0.0.1', port: 0 },
  parts: PARTS,
  digest: compilePolicy(PARTS).digest,
  pseudonym: 'me',
  token: undefined,
  insecureNoAuth: false,
  limits: {},
  mostTunnels: 10,
  resolve: ['a:1.2.3.4'],
  audit: false,
  relay: undefined,
  hasLog: true,
}

/** A worker in this process, with what it says. */
function open(t: Test) {
  const said: FromWorker[] = []
  const codes: number[] = []
  const resolved: (readonly string[])[] = []
  let tell: (message: ToWorker) => void = () => undefined
  runWorker({
    send(message, done) {
      said.push(message)
      if (done) setImmediate(done)
    },
    onMessage: (listener) => (tell = listener),
    exit: (code) => codes.push(code),
    resolverOf(resolve) {
      resolved.push(resolve)
      return () => Promise.resolve([])
    },
  })
  t.teardown(() => tell({ kind: 'drain' }))
  const says = (kind: FromWorker['kind']) =>
    until(`it says ${kind}`, () => said.some((one) => one.kind === kind))
  const of = <K extends FromWorker['kind']>(kind: K) =>
    said.filter((one): one is Extract<FromWorker, { kind: K }> => one.kind === kind)
  return { tell: (message: ToWorker) => tell(message), said, codes, resolved, says, of }
}

void tap.test(
  'it listens first, starts when it is told, and ends when it has drained',
  async (t) => {
    const worker = open(t)
    t.strictSame(worker.said, [{ kind: 'up' }])
    worker.tell({ kind: 'report', id: 1 })
    worker.tell({ kind: 'recall', round: 1 })
    t.strictSame(worker.said.slice(1), [{ kind: 'return', round: 1, slots: 0 }])
    worker.tell({ kind: 'start', setup: SETUP, leased: 3 })
    await worker.says('ready')
    t.strictSame(worker.resolved, [['a:1.2.3.4']])
    worker.tell({ kind: 'recall', round: 2 })
    t.match(worker.said.at(-1), { kind: 'return', round: 2, slots: 3 })
    worker.tell({ kind: 'report', id: 7 })
    t.match(worker.said.at(-1), { kind: 'stats', id: 7, stats: { generation: 1, tunnels: 0 } })
    t.strictSame(worker.of('events'), [], 'the policy is not told by each')
    const port = worker.of('ready')[0]?.bound.port ?? 0
    const client = await openRaw(t, port, { send: 'CONNECT evil.test:443 HTTP/1.1\r\n\r\n' })
    t.equal((await client.answer()).status, 403)
    client.reset()
    t.match(worker.of('events'), [{ events: [{ type: 'network_blocked' }] }])
    worker.tell({ kind: 'drain' })
    await until('it ends', () => worker.codes.length > 0)
    t.strictSame(worker.codes, [0])
    await t.rejects(openRaw(t, port))
  },
)

void tap.test('what it has to say is said before it ends', async (t) => {
  const worker = open(t)
  worker.tell({ kind: 'start', setup: SETUP, leased: 0 })
  await worker.says('ready')
  const client = await openRaw(t, worker.of('ready')[0]?.bound.port ?? 0)
  const hosts = ['a.test', 'b.test', 'c.test', 'd.test']
  client.send(hosts.map((one) => `GET http://${one}/ HTTP/1.1\r\nHost: ${one}\r\n\r\n`).join(''))
  for (const _ of hosts) t.equal((await client.answer()).status, 403)
  client.reset()
  worker.tell({ kind: 'drain' })
  await until('it ends', () => worker.codes.length > 0)
  t.equal(worker.of('events').flatMap(({ events }) => events).length, hosts.length)
})

void tap.test('a policy that is not the one that was sent serves nobody', async (t) => {
  const worker = open(t)
  worker.tell({ kind: 'start', setup: { ...SETUP, digest: 'other' }, leased: 0 })
  await worker.says('failed')
  t.match(worker.of('failed'), [{ code: 'INTERNAL', message: /not the one that was sent/ }])
  await until('it ends', () => worker.codes.length > 0)
  t.strictSame(worker.codes, [1])
})

void tap.test('what it cannot do is told with its code', async (t) => {
  for (const [setup, code] of [
    [{ token: '' }, 'OPTION_INVALID'],
    [{ listen: { host: '0.0.0.0', port: 0 } }, 'OPTION_INVALID'],
    [{ limits: { nope: 1 } }, 'OPTION_INVALID'],
    [{ listen: { host: '192.0.2.1', port: 1 }, insecureNoAuth: true }, 'LISTEN_FAILED'],
  ] as const) {
    const worker = open(t)
    worker.tell({ kind: 'start', setup: { ...SETUP, ...setup }, leased: 0 })
    await worker.says('failed')
    t.match(worker.of('failed'), [{ code }])
  }
})

void tap.test('asked to drain before it serves, it ends all the same', async (t) => {
  const worker = open(t)
  worker.tell({ kind: 'drain' })
  await until('it ends', () => worker.codes.length > 0)
  t.strictSame(worker.codes, [0])
})
