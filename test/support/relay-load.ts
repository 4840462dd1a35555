import {
  type Flow,
  type Pieces,
  PIECES,
  type Receipt,
  READINGS,
  receiveFlow,
  sendFlow,
  streamBytes,
} from './byte-stream.ts'
import { seeded } from './random.ts'
import type { BareLine, BareRelay, Line, Relay } from './relay-lines.ts'

/** How long a connection may move no byte before it counts as stuck, in milliseconds. */
const PATIENCE_MS = 6_000
const STILL_LOOKS = 4
/** How often nothing was read before nothing is held back, every 5 milliseconds. */
const HELD_LOOKS = 400

/** What goes through one line: both ways at once. */
export interface Exchange {
  readonly up: Flow
  readonly down: Flow
}

/** Sends both ways at once, and ends each way behind its bytes. Answers what was not as it has to be. */
export async function exchangeOver(line: Line, { up, down }: Exchange): Promise<string[]> {
  const atUpstream = receiveFlow(line.upstream, up)
  const atClient = receiveFlow(line.client, down)
  const send = async (from: 'client' | 'upstream', flow: Flow) => {
    await sendFlow(line[from], flow)
    line[from].end()
  }
  const all = Promise.all([
    send('client', up),
    send('upstream', down),
    atUpstream.ended,
    atClient.ended,
  ])
  const isInTime = await endsMoving(all, () => atUpstream.got + atClient.got)
  const problems = [...problemsOf(up, atUpstream), ...problemsOf(down, atClient)]
  return isInTime ? problems : ['it is stuck', ...problems]
}

/** What a whole flow has come to, if it is not what was sent. */
export function problemsOf({ stream, size }: Flow, { got, fault, end }: Receipt): string[] {
  if (fault !== undefined) return [fault]
  if (got === size && end === 'end') return []
  return [`${got} of ${size} bytes of stream ${stream}, then ${end ?? 'nothing'}`]
}

/** False if no byte moves for too long. */
async function endsMoving(work: Promise<unknown>, got: () => number): Promise<boolean> {
  // Several looks: one alone may come behind a time in which this process did not run.
  for (let still = 0, before = 0; still < STILL_LOOKS;) {
    if (await within(PATIENCE_MS / STILL_LOOKS, work)) return true
    const now = got()
    still = now === before ? still + 1 : 0
    before = now
  }
  return false
}

/** False if it takes longer. */
export async function within(ms: number, work: Promise<unknown>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), ms)
  })
  const isDone = await Promise.race([work.then(() => true), late])
  clearTimeout(timer)
  return isDone
}

/** What is wrong with the first of several that has come to something wrong; nothing if all end well. */
async function firstProblems(all: readonly Promise<string[]>[]): Promise<string[]> {
  const wrong = all.map((one) =>
    one.then((problems) => (problems.length > 0 ? problems : new Promise<never>(() => undefined))),
  )
  return Promise.race([Promise.all(all).then((found) => found.flat()), ...wrong])
}

/**
 * Many connections at a time, every kind of writer and reader among them, so that the sockets of the relay change how
 * they read all the time and writes wait.
 */
export async function loadMixed(relay: Relay, count: number, maxBytes: number): Promise<string[]> {
  const random = seeded(count)
  const flow = (stream: number): Flow => {
    const pieces = random.pick(PIECES)
    const most = pieces === 'small' ? Math.min(maxBytes, 200_000) : maxBytes
    const size = most / 2 + random.below(most / 2)
    return { stream, size, pieces, reading: random.pick(READINGS) }
  }
  return firstProblems(
    Array.from({ length: count }, async (_, i) => {
      const exchange = { up: flow(2 * i), down: flow(2 * i + 1) }
      return exchangeOver(await relay.open(), exchange)
    }),
  )
}

/** Connections that come at once, each with its first bytes right behind its CONNECT, and some before its answer. */
export async function loadEarly(relay: Relay, count: number): Promise<string[]> {
  return firstProblems(
    Array.from({ length: count }, async (_, i) => {
      const stream = 5_000 + 2 * i
      const from = 2 * (1 + i * 97)
      const up: Flow = { stream, size: from + 30_000, from, pieces: 'odd' }
      const down: Flow = { stream: stream + 1, size: 1_000 }
      const early = [0, from / 2].map((at) => streamBytes(stream, at, from / 2))
      const line = await relay.open(early)
      return exchangeOver(line, { up, down })
    }),
  )
}

/**
 * Sources that vanish while what was read last from them still waits to be written, beside connections that read much
 * at the same time. What was read has to arrive as it was.
 */
export function loadTorn(relay: BareRelay, rounds: number): Promise<string[]> {
  return beside(relay, async () => {
    for (let round = 0; round < rounds; round++) {
      const { client, upstream, near } = await relay.open()
      const flow: Flow = { stream: 30_000 + round, size: 100_000_000 }
      void sendFlow(upstream, flow)
      if (!(await isHeldBack(near))) return ['nothing waits for a client that does not read']
      const read = near.upstream.bytesRead - near.upstream.readableLength
      near.upstream.destroy()
      upstream.destroy()
      // Others read into what it read into, if that is lent again.
      await new Promise((resolve) => setTimeout(resolve, 10))
      near.client.end()
      const receipt = receiveFlow(client, flow)
      const isInTime = await endsMoving(receipt.ended, () => receipt.got)
      client.destroy()
      near.client.destroy()
      const problems = problemsOf({ ...flow, size: read }, receipt)
      if (problems.length > 0 || !isInTime) return [`torn in round ${round}`, ...problems]
    }
    return []
  })
}

/** Pieces of a kind to clients that read nothing until a write waits, while the others read on. */
export function loadHeld(relay: BareRelay, count: number, pieces: Pieces): Promise<string[]> {
  return beside(relay, () =>
    firstProblems(
      Array.from({ length: count }, async (_, i) => {
        const { client, upstream, near } = await relay.open()
        const flow: Flow = { stream: 40_000 + i, size: 10_000_000, pieces }
        const sending = sendFlow(upstream, flow)
        if (!(await isHeldBack(near))) return ['nothing waits for a client that does not read']
        await new Promise((resolve) => setTimeout(resolve, 30))
        const receipt = receiveFlow(client, flow)
        await sending
        upstream.end()
        client.end()
        return (await endsMoving(receipt.ended, () => receipt.got))
          ? problemsOf(flow, receipt)
          : [`stream ${flow.stream} is stuck`]
      }),
    ),
  )
}

/** Does something beside connections that read much and often open and close. */
async function beside(relay: Relay, work: () => Promise<string[]>): Promise<string[]> {
  const problems: string[] = []
  const state = { isOver: false }
  const others = Array.from({ length: 4 }, async (_, i) => {
    for (let stream = 20_000 + i; !state.isOver && problems.length === 0; stream += 4) {
      const up: Flow = { stream, size: 3_000_000, pieces: 'large' }
      const down: Flow = { stream: stream + 2_000, size: 3_000_000, reading: 'bursty' }
      problems.push(...(await exchangeOver(await relay.open(), { up, down })))
    }
  })
  problems.push(...(await work()))
  state.isOver = true
  await Promise.all(others)
  return problems
}

/** Waits until the near end of the client keeps bytes that do not leave. False if it takes no more, and keeps none. */
async function isHeldBack({ client, upstream }: BareLine['near']): Promise<boolean> {
  for (let still = 0, read = -1; still < HELD_LOOKS;) {
    const isStill = upstream.bytesRead === read
    if (isStill && client.writableLength > 0) return true
    still = isStill ? still + 1 : 0
    read = upstream.bytesRead
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  return false
}
