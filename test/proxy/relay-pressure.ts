import { type AddressInfo, createServer, type Socket } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import tap, { type Test } from 'tap'
import { PooledSocket } from '../../src/proxy/pooled-socket.ts'
import { type Flow, receiveFlow, sendFlow, streamBytes } from '../support/byte-stream.ts'
import { ESTABLISHED, openProxy, pause, RELAY } from '../support/proxy.ts'
import { seeded } from '../support/random.ts'
import { openRaw } from '../support/raw-client.ts'
import { type Line, openBareRelay, openProxyRelay, type Relay } from '../support/relay-lines.ts'
import { problemsOf, within } from '../support/relay-load.ts'
import { openUpstream } from '../support/upstream.ts'

const RELAYS = [openBareRelay, openProxyRelay] as const
const nameOf = (openRelay: (typeof RELAYS)[number]) =>
  openRelay === openBareRelay ? 'lanes' : 'a proxy'
const otherOf = { client: 'upstream', upstream: 'client' } as const
type Side = keyof typeof otherOf
const SIDES: readonly Side[] = ['client', 'upstream']

/** What a private buffer is long. */
const PRIVATE_BYTES = 262_144
/** How many of them there may be. */
const MAX_PRIVATE = 256
/** The most that a relay may keep of one direction: a private buffer, or what a stream keeps and one read more. */
const MAX_KEPT = PRIVATE_BYTES + 131_072

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

/** Bytes that this process has of its own, without what nobody uses any more. */
async function memoryInUse(): Promise<number> {
  for (let times = 0; times < 3; times++) {
    collect()
    await pause(10)
  }
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

/** Waits until a count has stopped to grow. */
async function untilSteady(count: () => number): Promise<number> {
  let last = -1
  for (let same = 0, waited = 0; same < 8 && waited < 400; waited++) {
    const now = count()
    same = now === last ? same + 1 : 0
    last = now
    await pause(20)
  }
  return last
}

async function turnsUntil(holds: () => boolean): Promise<void> {
  for (let turns = 0; !holds() && turns < 100_000; turns++) await new Promise(setImmediate)
}

for (const openRelay of RELAYS) {
  const name = nameOf(openRelay)

  void tap.test(
    `${name}: who ends its side, with bytes on their way, still gets all`,
    async (t) => {
      const relay = await openRelay(t)
      for (const [i, first] of SIDES.entries()) {
        const line = await relay.open()
        const second = otherOf[first]
        const there: Flow = { stream: 10 * i, size: 12_000_000, pieces: 'mixed', reading: 'slow' }
        const back: Flow = { stream: 10 * i + 1, size: 9_000_000, pieces: 'odd', reading: 'bursty' }
        const atSecond = receiveFlow(line[second], there)
        const atFirst = receiveFlow(line[first], back)
        const half = back.size / 2
        const sentBefore = sendFlow(line[second], { ...back, size: half })
        await sendFlow(line[first], there)
        line[first].end()
        t.ok(atSecond.got < there.size, 'bytes are on their way when it ends')
        await atSecond.ended
        await sentBefore
        await sendFlow(line[second], { ...back, from: half })
        line[second].end()
        await atFirst.ended
        t.strictSame(problemsOf(there, atSecond), [], `from the ${first}`)
        t.strictSame(problemsOf(back, atFirst), [], `and back to the ${first}`)
      }
    },
  )

  void tap.test(`${name}: a reset in the middle is one for the other side`, async (t) => {
    const relay = await openRelay(t)
    await resetRounds(t, relay, 40)
    const before = await memoryInUse()
    await resetRounds(t, relay, openRelay === openProxyRelay ? 300 : 100)
    const grown = (await memoryInUse()) - before
    t.ok(grown < 40_000_000, `${grown} bytes more after many of them`)
  })
}

/** Tunnels that are full of bytes when one side resets them, twenty at a time. */
async function resetRounds(t: Test, relay: Relay, count: number): Promise<void> {
  const random = seeded(count)
  const round = async (number: number): Promise<string[]> => {
    const side = random.pick(SIDES)
    const other = otherOf[side]
    const reading = random.pick(['fast', 'fast', 'slow', 'bursty', 'bursty'] as const)
    const bound = random.below(1_500_000)
    const to: Record<Side, Flow> = {
      client: { stream: 2 * number, size: 1e9, pieces: 'odd', reading },
      upstream: { stream: 2 * number + 1, size: 1e9, pieces: 'odd', reading },
    }
    const line = await relay.open()
    const at = {
      client: receiveFlow(line.client, to.client),
      upstream: receiveFlow(line.upstream, to.upstream),
    }
    // Some only listen: nothing that they write tells the relay that the other side is gone.
    const isOneWay = random.chance(50)
    const sent = Promise.all([
      sendFlow(line[side], to[other]),
      isOneWay ? undefined : sendFlow(line[other], to[side]),
    ])
    line[other].on('data', () => {
      if (at[other].got >= bound && !line[side].destroyed) line[side].resetAndDestroy()
    })
    const isInTime = await within(6_000, Promise.all([sent, at.client.ended, at.upstream.ended]))
    const problems = [at.client.fault, at.upstream.fault].filter((fault) => fault !== undefined)
    if (!isInTime) problems.push(`round ${number} is stuck`)
    if (at[other].end !== 'reset') problems.push(`the ${other} got ${at[other].end ?? 'nothing'}`)
    return problems
  }
  const problems: string[] = []
  for (let number = 0; number < count && problems.length === 0; number += 20) {
    const some = Array.from({ length: 20 }, (_, i) => round(number + i))
    problems.push(...(await Promise.all(some)).flat())
  }
  t.strictSame(problems, [])
}

// Node's streams lend none.
if (RELAY === 'pooled')
  void tap.test(
    'after all of that every private buffer can still be lent, and one more reader does without',
    async (t) => {
      const relay = await openBareRelay(t)
      const bufferOf = (near: Socket) =>
        near instanceof PooledSocket ? near.intake.buffer.length : undefined
      for (const round of ['first', 'second']) {
        const lines: Awaited<ReturnType<typeof relay.open>>[] = []
        for (let i = 0; i <= MAX_PRIVATE; i++) {
          const line = await relay.open()
          lines.push(line)
          const receipt = receiveFlow(line.client, { stream: i, size: 1e9 })
          const isPrivate = () => bufferOf(line.near.upstream) === PRIVATE_BYTES
          let sent = 0
          // A large piece is read at once, as a rule.
          for (let tries = 0; tries < 5 && !isPrivate(); tries++) {
            line.upstream.write(streamBytes(i, sent, 65_536))
            sent += 65_536
            await turnsUntil(() => receipt.got === sent)
          }
          if (isPrivate() !== i < MAX_PRIVATE) t.fail(`reader ${i} in the ${round} round`)
          if (receipt.fault !== undefined) t.fail(receipt.fault)
        }
        for (const { client, upstream } of lines) {
          client.destroy()
          upstream.destroy()
        }
        await turnsUntil(() => lines.every(({ near }) => near.upstream.closed))
      }
    },
  )

void tap.test('a side that does not read holds the other one back', async (t) => {
  for (const side of SIDES) {
    const relay = await openBareRelay(t)
    const line = await relay.open()
    const from = otherOf[side]
    const flow: Flow = { stream: 1, size: 100_000_000, pieces: 'mixed' }
    const sending = sendFlow(line[from], flow)
    const taken = await untilSteady(() => line.near[from].bytesRead)
    t.ok(taken < flow.size / 2, `${taken} bytes were taken for the ${side}`)
    const kept = line.near[side].writableLength + line.near[from].readableLength
    t.ok(kept > 0 && kept <= MAX_KEPT, `${kept} bytes are kept`)
    t.ok(line[from].writableLength > 0, 'and the writes have stopped')
    const receipt = receiveFlow(line[side], flow)
    await sending
    line[from].end()
    await receipt.ended
    t.strictSame(problemsOf(flow, receipt), [], 'all of it comes when it reads again')
  }
})

void tap.test('a tunnel keeps as little for a client that does not read', async (t) => {
  const flow: Flow = { stream: 1, size: 100_000_000, pieces: 'large' }
  const upstream = await openUpstream(t, ({ socket }) => void sendFlow(socket, flow))
  const proxied = await openProxy(t, { hosts: { 'allowed.test': upstream.port } })
  const nears: Socket[] = []
  const listener = createServer({ allowHalfOpen: true }, (near) => nears.push(near))
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve))
  proxied.proxy.attach(listener)
  const { port } = listener.address() as AddressInfo
  const head = 'CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n'
  const client = await openRaw(t, port, { send: head, isPaused: true })
  const source = await upstream.connection()
  const sent = await untilSteady(() => source.socket.bytesWritten - source.socket.writableLength)
  t.ok(source.socket.writableLength > 0 && sent < flow.size, 'the writes stop')
  const [near] = nears
  if (near === undefined) throw new TypeError('the proxy has it')
  const passedOn = near.bytesWritten - near.writableLength - ESTABLISHED.length
  client.reset()
  const { bytes_down: taken, cause } = await proxied.event('tunnel_closed')
  t.equal(cause, 'reset')
  const kept = taken - passedOn
  t.ok(kept > 0 && kept <= MAX_KEPT, `${kept} bytes are kept of ${taken}`)
})

void tap.test(
  '64 clients that do not read cost little memory, and those who read later get all',
  async (t) => {
    const relay = await openProxyRelay(t)
    const lines: Line[] = []
    for (let i = 0; i < 64; i++) lines.push(await relay.open())
    const before = await memoryInUse()
    const rssBefore = process.memoryUsage().rss
    const flowOf = (stream: number): Flow => ({ stream, size: 16_000_000, pieces: 'large' })
    const sending = lines.map(({ upstream }, i) => sendFlow(upstream, flowOf(i)))
    const sentBy = ({ upstream }: Line) => upstream.bytesWritten - upstream.writableLength
    const sent = await untilSteady(() => lines.reduce((sum, line) => sum + sentBy(line), 0))
    t.ok(sent < 64 * 16_000_000, `the writes stop: ${sent}`)
    const grown = (await memoryInUse()) - before
    t.ok(grown < 64_000_000, `${grown} bytes in use`)
    const rss = process.memoryUsage().rss - rssBefore
    t.ok(rss < 128_000_000, `${rss} bytes resident`)
    t.comment(`${sent} sent, ${grown} in use, ${rss} resident`)
    for (const { client } of lines.slice(8)) client.destroy()
    const rest = lines.slice(0, 8)
    const receipts = rest.map(({ client }, i) => receiveFlow(client, flowOf(i)))
    await Promise.all(sending)
    for (const { upstream } of rest) upstream.end()
    await Promise.all(receipts.map(({ ended }) => ended))
    t.strictSame(
      receipts.flatMap((receipt, i) => problemsOf(flowOf(i), receipt)),
      [],
    )
  },
)
