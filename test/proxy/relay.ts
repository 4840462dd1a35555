import { createServer, connect as connectTo, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import tap, { type Test } from 'tap'
import { boundHalfClosed, Relay, type RelayCause, resetSocket } from '../../src/proxy/relay.ts'
import { pause, until } from '../support/proxy.ts'
import { type RawClient, rawClientOf } from '../support/raw-client.ts'
import { startLane } from '../support/relay-lines.ts'
import { openSocketPair } from '../support/socket-pair.ts'

interface Stand {
  readonly relay: Relay
  /** What the far ends see: the client's program, and the upstream's. */
  readonly client: RawClient
  readonly upstream: RawClient
  /** The near ends, which the relay holds. */
  readonly near: readonly [client: Socket, upstream: Socket]
  /** How the pair ended, once it has. */
  readonly cause: RelayCause | undefined
}

async function openStand(t: Test, idleMs = 0, isPaused = false): Promise<Stand> {
  const [nearClient, client] = await openSocketPair(t)
  const [nearUpstream, upstream] = await openSocketPair(t)
  const relay = new Relay(nearClient, nearUpstream, idleMs, (cause) => (stand.cause = cause))
  const stand: { -readonly [K in keyof Stand]: Stand[K] } = {
    relay,
    client: rawClientOf(client, isPaused),
    upstream: rawClientOf(upstream, isPaused),
    near: [nearClient, nearUpstream],
    cause: undefined,
  }
  relay.carry()
  return stand
}

const ended = (stand: Stand) => until('both have closed', () => stand.cause !== undefined)

void tap.test('bytes go both ways, unchanged', async (t) => {
  const stand = await openStand(t)
  const all = Buffer.from(Array.from({ length: 256 }, (_, i) => i))
  stand.client.send(all)
  stand.upstream.send(Buffer.concat([all, all]))
  await stand.upstream.until(256)
  await stand.client.until(512)
  t.strictSame(stand.upstream.bytes, all)
  t.strictSame(stand.client.bytes, Buffer.concat([all, all]))
})

void tap.test('an end is passed on as an end, and the other way stays open', async (t) => {
  for (const [first, second] of [
    ['client', 'upstream'],
    ['upstream', 'client'],
  ] as const) {
    const stand = await openStand(t)
    stand[first].send('last words')
    stand[first].end()
    await until('the end arrives', () => stand[second].isEnded)
    t.equal(stand[second].text, 'last words')
    stand[second].send('still here')
    await stand[first].until('still here')
    t.equal(stand.cause, undefined)
    stand[second].end()
    await ended(stand)
    t.equal(stand.cause, 'end')
    t.notOk(stand.client.error ?? stand.upstream.error)
  }
})

void tap.test('a reset is passed on as a reset', async (t) => {
  for (const [first, second] of [
    ['client', 'upstream'],
    ['upstream', 'client'],
  ] as const) {
    const stand = await openStand(t)
    stand[first].send('x')
    await stand[second].until('x')
    stand[first].reset()
    await ended(stand)
    t.equal(stand.cause, 'reset')
    await until('the other side is gone', () => stand[second].isClosed)
    t.equal(stand[second].error?.code, 'ECONNRESET', `from the ${first}`)
  }
})

void tap.test('a reset behind an end is one too', async (t) => {
  const stand = await openStand(t)
  stand.client.end()
  await until('the end arrives', () => stand.upstream.isEnded)
  stand.upstream.reset()
  await ended(stand)
  t.equal(stand.cause, 'reset')
  await until('the client is gone', () => stand.client.isClosed)
})

void tap.test('a reset that comes together with bytes is one too, and no end', async (t) => {
  for (const piece of [1, 40_000, 1_000_000]) {
    const [nearClient, client] = await openSocketPair(t)
    const [nearUpstream, upstream] = await openSocketPair(t)
    let cause: RelayCause | undefined
    const relay = new Relay(nearClient, nearUpstream, 0, (found) => (cause = found))
    const seen = rawClientOf(client)
    let hasEnded = false
    nearClient.on('finish', () => (hasEnded = true))
    // The bytes and the reset are there before anything is read.
    upstream.write(Buffer.alloc(piece))
    await until('it is sent', () => upstream.writableLength === 0)
    upstream.resetAndDestroy()
    await pause(20)
    relay.carry()
    await until('the pair has ended', () => cause !== undefined)
    t.equal(cause, 'reset')
    t.notOk(hasEnded, 'the client is not told that it was all')
    await until('the client is gone', () => seen.isClosed || seen.isEnded)
  }
})

void tap.test(
  'the side that ended first is closed behind the other end, with all its bytes',
  async (t) => {
    for (const size of [3, 5_000_000]) {
      const stand = await openStand(t)
      stand.client.end()
      await until('the end has passed', () => stand.upstream.isEnded)
      stand.upstream.send(Buffer.alloc(size, 1))
      stand.upstream.end()
      await stand.client.until(size)
      await until('and the other end', () => stand.client.isEnded)
      await ended(stand)
      t.equal(stand.cause, 'end')
      t.notOk(stand.client.error, 'no reset')
      t.equal(stand.client.bytes.length, size)
      const [near] = stand.near
      if (size === 3) t.notOk(near.writableEnded, 'it takes no end of its own')
    }
  },
)

void tap.test('a reset behind an end that was sent takes nothing from it', async (t) => {
  const [nearClient, client] = await openSocketPair(t)
  const [nearUpstream, upstream] = await openSocketPair(t)
  const relay = new Relay(nearClient, nearUpstream, 0, () => undefined)
  const seen = rawClientOf(client)
  upstream.end('all of it')
  await until('it is sent', () => upstream.writableFinished)
  upstream.destroy()
  // Whoever has closed answers bytes with a reset.
  nearUpstream.write('too late')
  await pause(20)
  relay.carry()
  await until('the end arrives', () => seen.isEnded)
  t.equal(seen.text, 'all of it')
  t.notOk(seen.error)
})

void tap.test('who does not read holds the other one back', async (t) => {
  const stand = await openStand(t, 0, true)
  const size = 40_000_000
  stand.client.send(Buffer.alloc(size, 1))
  stand.client.end()
  const [near, out] = stand.near
  let steady = 0
  let last = -1
  await until('nothing moves', () => {
    steady = near.bytesRead === last ? steady + 1 : 0
    last = near.bytesRead
    return last > 0 && steady > 10
  })
  t.ok(near.bytesRead < size / 2, `${near.bytesRead} of ${size}`)
  t.ok(out.writableLength < 1_000_000, 'little is kept in between')
  let got = 0
  stand.upstream.socket.on('data', ({ length }: Buffer) => (got += length))
  stand.upstream.socket.resume()
  await until('all has come', () => got === size)
  await until('and the end', () => stand.upstream.isEnded)
})

void tap.test('idle: no byte either way; a byte either way is none', async (t) => {
  const stand = await openStand(t, 400)
  for (let i = 0; i < 6; i++) {
    await new Promise((resolve) => setTimeout(resolve, 80))
    if (i % 2 === 0) stand.client.send('.')
    else stand.upstream.send('.')
  }
  t.equal(stand.cause, undefined)
  await ended(stand)
  t.equal(stand.cause, 'idle')
  await until('both are gone', () => stand.client.isClosed && stand.upstream.isClosed)
  t.equal(stand.client.error?.code, 'ECONNRESET', 'that is no proper end')
  t.equal(stand.upstream.error?.code, 'ECONNRESET')
})

void tap.test('idle: one way alone may be silent', async (t) => {
  const stand = await openStand(t, 400)
  for (let i = 0; i < 8; i++) {
    await new Promise((resolve) => setTimeout(resolve, 80))
    stand.upstream.send('.')
  }
  t.equal(stand.cause, undefined)
})

void tap.test('destroy ends both, with the first cause', async (t) => {
  const stand = await openStand(t)
  stand.relay.destroy('drain')
  stand.relay.destroy('idle')
  await ended(stand)
  t.equal(stand.cause, 'drain')
  await until('both are gone', () => stand.client.isClosed && stand.upstream.isClosed)
})

void tap.test('release lets go of both: no end of one touches the other', async (t) => {
  const [nearClient, client] = await openSocketPair(t)
  const [nearUpstream] = await openSocketPair(t)
  let isSettled = false
  const relay = new Relay(nearClient, nearUpstream, 30, () => (isSettled = true))
  relay.release()
  await new Promise((resolve) => setTimeout(resolve, 80))
  t.notOk(nearClient.destroyed, 'the idle limit is gone')
  client.resetAndDestroy()
  nearClient.resume()
  await until('one is gone', () => nearClient.destroyed)
  t.notOk(nearUpstream.destroyed)
  t.notOk(isSettled)
})

void tap.test('a lane can be stopped: what comes later stays unread', async (t) => {
  const [near, far] = await openSocketPair(t)
  const [out, sink] = await openSocketPair(t)
  const target = rawClientOf(sink)
  const lane = startLane(near, out)
  far.write('one')
  await target.until('one')
  lane.stop()
  t.ok(near.isPaused())
  far.end('two')
  await new Promise((resolve) => setTimeout(resolve, 30))
  t.equal(target.text, 'one')
  t.notOk(target.isEnded)
  t.equal(near.listenerCount('data') + out.listenerCount('drain'), 0)
  startLane(near, out)
  await target.until('onetwo')
  await until('and the end', () => target.isEnded)
})

void tap.test('a source that has ended before is passed on as ended', async (t) => {
  const [near, far] = await openSocketPair(t)
  const [out, sink] = await openSocketPair(t)
  const target = rawClientOf(sink)
  far.end()
  near.resume()
  await until('it has ended', () => near.readableEnded)
  startLane(near, out)
  await until('the end arrives', () => target.isEnded)
})

void tap.test('many pairs on one process leave no listeners behind', async (t) => {
  const stand = await openStand(t)
  const counts = (socket: Socket) =>
    ['data', 'end', 'drain', 'error', 'close', 'timeout'].map((name) => socket.listenerCount(name))
  for (const count of stand.near.flatMap(counts)) t.ok(count <= 4, String(count))
})

void tap.test('a reset never leaves a socket open', async (t) => {
  const [near, far] = await openSocketPair(t)
  far.resume()
  resetSocket(near)
  t.doesNotThrow(() => resetSocket(near), 'twice')
  await until('it is gone', () => near.closed)

  const [ending, peer] = await openSocketPair(t)
  ending.write(Buffer.alloc(10_000_000))
  ending.end()
  resetSocket(ending)
  await until('one that is still sending its end', () => ending.closed)
  peer.destroy()

  const path = join(tmpdir(), `egress-${process.pid}-relay`)
  const server = createServer((socket) => socket.resume().on('error', () => undefined))
  await new Promise<void>((resolve) => server.listen(path, resolve))
  t.teardown(() => server.close())
  const onUnix = connectTo(path)
  onUnix.on('error', () => undefined)
  await new Promise((resolve) => onUnix.once('connect', resolve))
  resetSocket(onUnix)
  await until('a unix socket', () => onUnix.closed)
})

void tap.test(
  'a client that ended its side and waits is let go after a silence, not before',
  async (t) => {
    const [near, far] = await openSocketPair(t)
    near.once('end', () => boundHalfClosed(near, 60))
    near.resume()
    far.resume()
    far.end()
    for (let i = 0; i < 4; i++) {
      await new Promise((resolve) => setTimeout(resolve, 20))
      near.write('.')
    }
    t.notOk(near.destroyed, 'every byte of the answer renews it')
    await new Promise((resolve) => near.once('close', resolve))
  },
)
