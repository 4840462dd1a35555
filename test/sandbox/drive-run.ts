import tap from 'tap'
import { EgressError } from '../../src/errors.ts'
import type { EgressEvent } from '../../src/events/event.ts'
import { driveRun, type NodePlace } from '../../src/sandbox/drive-run.ts'
import { RunControl } from '../../src/sandbox/run-control.ts'
import type { RunRecord } from '../../src/sandbox/run-record.ts'
import type { RunHandle } from '../../src/sandbox/run-store.ts'
import type { NodeSpec } from '../../src/sandbox/spec.ts'
import { Teardown } from '../../src/sandbox/teardown.ts'

const NODES: NodeSpec[] = ['a', 'b', 'c'].map((id) => ({
  id,
  backend: 'tool',
  command: 'true',
  fallback: [],
}))

type Behaviour = number | 'hangs' | Error

function setUp(behaviours: Record<string, Behaviour>, done: string[] = [], codeAtSignal = 0) {
  const events: EgressEvent[] = []
  const started: string[] = []
  let record = {
    checkpoint: { done: done.map((node) => ({ node, exit_code: 0 })), next: null },
  } as unknown as RunRecord
  const handle: RunHandle = {
    get record() {
      return record
    },
    eventsFile: '',
    lastSeq: 0,
    update: (change) => (record = { ...record, ...change }),
    writeGuard: () => undefined,
    removeGuard: () => undefined,
    close: () => undefined,
  }
  const control = new RunControl()
  const teardown = new Teardown()
  let tornDown = 0
  teardown.add('count', () => void tornDown++)
  const place: NodePlace = {
    start({ id }) {
      started.push(id)
      const behaviour = behaviours[id] ?? 0
      let end: (code: number) => void = () => undefined
      const waiting = new Promise<number>((resolve) => (end = resolve))
      return {
        done:
          behaviour === 'hangs'
            ? waiting
            : behaviour instanceof Error
              ? Promise.reject(behaviour)
              : Promise.resolve(behaviour),
        signal: () => end(codeAtSignal),
        resize: () => undefined,
        output: [],
      }
    },
  }
  const tools = { handle, emit: (event: EgressEvent) => events.push(event), control, teardown }
  return { tools, place, events, started, control, tornDown: () => tornDown }
}

void tap.test('all nodes in order, then finished', async (t) => {
  const { tools, place, started, events, tornDown } = setUp({})
  const result = await driveRun(NODES, tools, async () => place)
  t.match(result, { exitCode: 0, failure: undefined, leftBehind: [] })
  t.match(result.record, { status: 'finished', failure_code: null, exit_code: 0 })
  t.match(result.record.checkpoint, { next: null })
  t.strictSame(started, ['a', 'b', 'c'])
  t.equal(tornDown(), 1)
  t.strictSame(
    events.map(({ type }) => type),
    [
      ...Array.from({ length: 6 }, (_, i) => (i % 2 ? 'node_finished' : 'node_started')),
      'sandbox_stopped',
    ],
  )
})

void tap.test('a command that fails ends the run with its own code and is next', async (t) => {
  const { tools, place, started } = setUp({ b: 7 })
  const result = await driveRun(NODES, tools, async () => place)
  t.equal(result.exitCode, 7)
  t.match(result.record, {
    status: 'failed_resumable',
    failure_code: 'NODE_FAILED',
    error: '[NODE_FAILED] the command of node b ended with 7',
    retry_class: null,
    exit_code: 7,
    checkpoint: { done: [{ node: 'a', exit_code: 0 }], next: 'b' },
  })
  t.strictSame(started, ['a', 'b'])
})

void tap.test('what is done is not done again', async (t) => {
  const { tools, place, started } = setUp({}, ['a'])
  const { record } = await driveRun(NODES, tools, async () => place)
  t.strictSame(started, ['b', 'c'])
  t.strictSame(
    record.checkpoint.done.map(({ node }) => node),
    ['a', 'b', 'c'],
  )
})

void tap.test('a place that cannot be made, or is lost, is 125', async (t) => {
  const refused = setUp({})
  const first = await driveRun(NODES, refused.tools, () =>
    Promise.reject(new EgressError('SANDBOX_DOOR_FAILED', 'no door')),
  )
  t.match(first, { exitCode: 125, record: { failure_code: 'SANDBOX_DOOR_FAILED' } })
  t.strictSame(refused.started, [])
  t.equal(refused.tornDown(), 1)
  const lost = setUp({ a: 'hangs' })
  const second = await driveRun(NODES, lost.tools, async () => ({
    ...lost.place,
    lost: Promise.reject(new EgressError('SANDBOX_LOST', 'gone')),
  }))
  t.match(second, { exitCode: 125, record: { failure_code: 'SANDBOX_LOST' } })
  const both = setUp({ a: new EgressError('NODE_FAILED', 'nobody knows') })
  const lostLater = new Promise<never>((_, reject) => {
    setTimeout(() => reject(new EgressError('SANDBOX_LOST', 'gone')), 50)
  })
  const fourth = await driveRun(NODES, both.tools, async () => ({ ...both.place, lost: lostLater }))
  t.match(fourth, { exitCode: 125, record: { failure_code: 'SANDBOX_LOST' } })
  const unknown = setUp({ a: new EgressError('NODE_FAILED', 'nobody knows') })
  const third = await driveRun(NODES, unknown.tools, async () => unknown.place)
  t.match(third, { exitCode: 125, record: { failure_code: 'NODE_FAILED' } })
})

void tap.test('a signal ends the run behind the node that it reached', async (t) => {
  const { tools, place, started, control } = setUp({ a: 'hangs' })
  const running = driveRun(NODES, tools, async () => place)
  setImmediate(() => control.receive('SIGTERM'))
  const { exitCode, record } = await running
  t.equal(exitCode, 143)
  t.match(record, { status: 'cancelled', failure_code: 'RUN_CANCELLED' })
  t.strictSame(started, ['a'])
})

void tap.test('a command that ends with a code of its own at a signal keeps it', async (t) => {
  const { tools, place, control } = setUp({ a: 'hangs' }, [], 3)
  const running = driveRun(NODES, tools, async () => place)
  setImmediate(() => control.receive('SIGTERM'))
  const { exitCode, record } = await running
  t.equal(exitCode, 3)
  t.match(record, { status: 'cancelled', exit_code: 3 })
})

void tap.test('a run that was asked to end before it began makes nothing', async (t) => {
  const { tools, control } = setUp({})
  control.receive('SIGINT')
  const result = await driveRun(NODES, tools, () => t.fail('nothing may be made') as never)
  t.match(result, { exitCode: 130, record: { status: 'cancelled' } })
})

void tap.test('what is left behind stays in the record for the reaper', async (t) => {
  const { tools, place } = setUp({})
  tools.teardown.add('container', () => ['abc'])
  tools.handle.update({ scratch: '/s', container: 'abc' })
  const { leftBehind, record } = await driveRun(NODES, tools, async () => place)
  t.strictSame(leftBehind, ['abc'])
  t.match(record, { scratch: '/s', container: 'abc' })
})

void tap.test(
  'a node that fails is taken up by its fallbacks, in order, until one is done',
  async (t) => {
    const backends: string[] = []
    const { tools, place, events } = setUp({})
    const codes: Record<string, number> = { claude_code: 1, pi: 137, kimi: 0, grok: 0 }
    const byBackend: NodePlace = {
      start: (node) => {
        backends.push(`${node.id} ${node.backend}`)
        return { ...place.start(node), done: Promise.resolve(codes[node.backend] ?? 0) }
      },
    }
    const node = (id: string, fallback: NodeSpec['fallback']): NodeSpec => ({
      id,
      backend: 'claude_code',
      command: 'x',
      fallback,
    })
    const result = await driveRun(
      [node('a', ['pi', 'kimi', 'grok']), node('b', ['pi'])],
      tools,
      async () => byBackend,
    )
    t.strictSame(backends, ['a claude_code', 'a pi', 'a kimi', 'b claude_code', 'b pi'])
    t.strictSame(
      events.filter(({ type }) => type === 'node_fallback').map(({ data }) => data),
      [
        { node: 'a', from: 'claude_code', to: 'pi', exit_code: 1 },
        { node: 'a', from: 'pi', to: 'kimi', exit_code: 137 },
        { node: 'b', from: 'claude_code', to: 'pi', exit_code: 1 },
      ],
    )
    t.match(result, {
      exitCode: 137,
      record: { checkpoint: { done: [{ node: 'a', exit_code: 0 }], next: 'b' } },
    })
  },
)

void tap.test('a run that is told to end takes up no fallback', async (t) => {
  const { tools, place, started, control } = setUp({ a: 'hangs' }, [], 1)
  const [first] = NODES
  const nodes: NodeSpec[] = first ? [{ ...first, backend: 'pi', fallback: ['kimi'] }] : []
  const running = driveRun(nodes, tools, async () => place)
  await new Promise((resolve) => setImmediate(resolve))
  control.receive('SIGTERM')
  t.match(await running, { record: { status: 'cancelled' } })
  t.strictSame(started, ['a'])
})
