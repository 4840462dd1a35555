import { createSocket, type Socket as DatagramSocket } from 'node:dgram'
import { EventEmitter, once } from 'node:events'
import type { Socket } from 'node:net'
import tap, { type Test } from 'tap'
import { FrameReader, writeFrame } from '../../src/door/frame-reader.ts'
import type { NameStub } from '../../src/door/name-stub.ts'
import { serveDatagrams, serveFramedDatagrams, serveStream } from '../../src/door/serve-names.ts'
import { queryOf, readAnswer, words } from '../support/dns.ts'
import { openStub } from '../support/name-stub.ts'
import { pause, until } from '../support/proxy.ts'
import { openSocketPair } from '../support/socket-pair.ts'

const GOOD = queryOf({ name: 'api.example.test', id: 1 })
const EVIL = queryOf({ name: 'evil.test', id: 2 })
const ANSWER = queryOf({ name: 'evil.test', id: 3, flags: 0x8000 })

/** The frames that come to one end. */
function framesOf(socket: Socket): Buffer[] {
  const reader = new FrameReader()
  const frames: Buffer[] = []
  socket.on('data', (chunk: Buffer) => {
    reader.push(chunk)
    for (let one = reader.next(); one; one = reader.next()) frames.push(one)
  })
  return frames
}

function idsOf(frames: readonly Buffer[]): number[] {
  return frames.map((frame) => (frame.length === 0 ? -1 : frame.readUInt16BE(0)))
}

async function bind(t: Test): Promise<DatagramSocket> {
  const socket = createSocket('udp4')
  socket.on('error', () => undefined)
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  t.teardown(() => new Promise<void>((resolve) => socket.close(resolve)))
  return socket
}

void tap.test('a datagram is answered to its sender', async (t) => {
  const server = await bind(t)
  serveDatagrams(server, openStub().stub)
  const clients = [await bind(t), await bind(t)]
  const seen = clients.map((client) => {
    const answers: Buffer[] = []
    client.on('message', (message) => answers.push(message))
    return answers
  })
  const send = (client: number, bytes: Buffer) =>
    clients[client]?.send(bytes, server.address().port, '127.0.0.1')
  send(0, Buffer.alloc(0))
  send(0, ANSWER)
  send(0, Buffer.alloc(60_000))
  send(0, GOOD)
  send(1, EVIL)
  await until('both are answered', () => seen.every((answers) => answers.length > 0))
  await until('a zero header too', () => seen[0]?.length === 2)
  t.strictSame(seen.map(idsOf), [[0, 1], [2]], 'once each, and not what is no query')
  t.strictSame(readAnswer(seen[0]?.[1]).answers, ['A 127.64.0.2'])
})

void tap.test('an answer that cannot be sent is dropped', async (t) => {
  const sent: unknown[][] = []
  let waiting = 0
  const fake = Object.assign(new EventEmitter(), {
    getSendQueueSize: () => waiting,
    send: (...args: unknown[]) => {
      sent.push(args.slice(1, 3))
      const done = args[3] as (error: Error) => void
      done(new Error('EPERM'))
    },
  })
  serveDatagrams(fake as unknown as DatagramSocket, openStub().stub)
  const from = { address: '127.0.0.1', family: 'IPv4', size: 1 }
  fake.emit('message', GOOD, { ...from, port: 0 })
  fake.emit('message', GOOD, { ...from, port: 53 })
  waiting = 1_000_000
  fake.emit('message', GOOD, { ...from, port: 54 })
  fake.emit('error', new Error('ECONNREFUSED'))
  t.strictSame(sent, [[53, '127.0.0.1']])
})

void tap.test('Node throws for port 0', async (t) => {
  const socket = await bind(t)
  t.throws(() => socket.send(GOOD, 0, '127.0.0.1', () => undefined))
})

void tap.test('queries of one connection are answered in order', async (t) => {
  const [near, far] = await openSocketPair(t)
  serveStream(near, openStub().stub)
  const frames = framesOf(far)
  const all = Buffer.concat([GOOD, EVIL, ANSWER, GOOD].map(writeFrame))
  // In pieces that cut through lengths and messages.
  for (let at = 0; at < all.length; at += 7) {
    far.write(all.subarray(at, at + 7))
    if (at < 21) await pause(2)
  }
  await until('all are answered', () => frames.length === 3)
  t.strictSame(idsOf(frames), [1, 2, 1])
  t.notOk(far.destroyed)
  far.end()
  await until('it is closed', () => near.destroyed)
})

void tap.test('what was asked before the end is answered', async (t) => {
  const [near, far] = await openSocketPair(t)
  serveStream(near, openStub().stub)
  const frames = framesOf(far)
  far.end(Buffer.concat([writeFrame(GOOD), writeFrame(EVIL), Buffer.of(0, 40, 1)]))
  await once(far, 'end')
  t.strictSame(idsOf(frames), [1, 2])
})

void tap.test('a length that no query has ends the connection', async (t) => {
  for (const length of [0, 11, 4_097, 65_535]) {
    const [near, far] = await openSocketPair(t)
    serveStream(near, openStub().stub)
    const frames = framesOf(far)
    far.write(Buffer.concat([writeFrame(GOOD), words(length)]))
    await until(`${length} octets`, () => near.destroyed)
    t.ok(frames.length <= 1)
  }
  const [near, far] = await openSocketPair(t)
  serveStream(near, openStub().stub)
  const frames = framesOf(far)
  far.write(writeFrame(Buffer.concat([GOOD, Buffer.alloc(4_096 - GOOD.length)])))
  await until('one of 4,096 is answered', () => frames.length === 1)
})

void tap.test('a connection without a whole query is closed', async (t) => {
  const [near, far] = await openSocketPair(t)
  serveStream(near, openStub().stub, 150)
  far.resume()
  far.on('error', () => undefined)
  // Octets that make up no query do not keep it open.
  const drip = setInterval(() => far.write(Buffer.of(0)), 20)
  far.write(Buffer.concat([writeFrame(GOOD), words(4_000)]))
  t.teardown(() => clearInterval(drip))
  await until('it is closed', () => near.destroyed)
  const [busy, client] = await openSocketPair(t)
  serveStream(busy, openStub().stub, 150)
  client.resume()
  for (let i = 0; i < 10; i++) {
    client.write(writeFrame(GOOD))
    await pause(30)
  }
  t.notOk(busy.destroyed, 'queries do')
})

/** A stub that counts what it answers, with long answers. */
function counting(): { readonly stub: NameStub; readonly count: () => number } {
  let count = 0
  const answer = () => {
    count++
    return Buffer.alloc(500)
  }
  return { stub: { answerDatagram: answer, answerStream: answer }, count: () => count }
}

void tap.test('who does not read is not answered for long', async (t) => {
  const [near, far] = await openSocketPair(t)
  const { stub, count } = counting()
  serveStream(near, stub, 3_000)
  // 16 MB of queries, over 200 MB of answers.
  const query = writeFrame(GOOD)
  const many = Buffer.concat(Array.from({ length: 2_000 }, () => query))
  const total = 200 * 2_000
  let sent = 0
  const send = () => {
    while (sent < 200 && far.write(many)) sent++
  }
  far.on('drain', send)
  send()
  let before = -1
  while (before !== count()) {
    before = count()
    await pause(100)
  }
  t.ok(before > 100 && before < total / 4, `${before} of ${total} are answered`)
  t.ok(near.writableLength < 100_000, `${near.writableLength} wait to be written`)
  const taken = near.bytesRead - before * query.length
  t.ok(taken < 200_000, `${taken} octets of queries are in memory`)
  let bytes = 0
  far.on('data', (chunk: Buffer) => (bytes += chunk.length))
  await until('then it goes on', () => bytes > (before + 5_000) * 502)
  t.notOk(near.destroyed)
  far.pause()
  await until('and it is closed when nobody reads for long', () => near.destroyed, 8_000)
})

void tap.test('a relay gets a frame for every frame', async (t) => {
  const [near, far] = await openSocketPair(t)
  serveFramedDatagrams(near, openStub().stub)
  const frames = framesOf(far)
  const junk = Buffer.alloc(65_535)
  for (const one of [GOOD, Buffer.alloc(0), ANSWER, Buffer.of(1), junk, EVIL]) {
    far.write(writeFrame(one))
  }
  await until('all are answered', () => frames.length === 6)
  t.strictSame(idsOf(frames), [1, -1, -1, -1, 0, 2])
  far.end()
  await until('it is closed', () => near.destroyed)
})

void tap.test('a relay that does not read is held back, and loses nothing', async (t) => {
  const [near, far] = await openSocketPair(t)
  const { stub, count } = counting()
  serveFramedDatagrams(near, stub)
  const total = 60_000
  far.end(Buffer.concat(Array.from({ length: total }, () => writeFrame(GOOD))))
  let before = -1
  while (before !== count()) {
    before = count()
    await pause(100)
  }
  t.ok(before < total, `${before} of ${total} are answered`)
  const taken = near.bytesRead - before * writeFrame(GOOD).length
  t.ok(taken < 200_000, `${taken} octets of datagrams are in memory`)
  const frames = framesOf(far)
  await once(far, 'end')
  t.equal(frames.length, total)
})

void tap.test('a reset in the middle is no fault', async (t) => {
  for (const serve of [serveStream, serveFramedDatagrams]) {
    const [near, far] = await openSocketPair(t)
    serve(near, openStub().stub)
    far.write(Buffer.concat(Array.from({ length: 100 }, () => writeFrame(GOOD))))
    far.resetAndDestroy()
    await until('it is closed', () => near.destroyed)
  }
  const [near] = await openSocketPair(t)
  near.destroy()
  serveStream(near, openStub().stub, 1)
  await pause(10)
  t.ok(near.destroyed)
})
