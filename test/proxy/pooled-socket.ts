import { type AddressInfo, createServer, Socket } from 'node:net'
import tap, { type Test } from 'tap'
import { PooledCarrier, PooledSocket, takeBytes } from '../../src/proxy/pooled-socket.ts'
import { until } from '../support/proxy.ts'
import { openSocketPair } from '../support/socket-pair.ts'

const MEBIBYTE = 1024 ** 2

/** A pooled socket and its far end. */
async function openPooled(t: Test): Promise<[near: PooledSocket, far: Socket]> {
  const server = createServer({ allowHalfOpen: true })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const accepted = new Promise<Socket>((resolve) => server.once('connection', resolve))
  const near = new PooledSocket()
  near.connect({ host: '127.0.0.1', port })
  const far = await accepted
  server.close()
  for (const socket of [near, far]) {
    socket.on('error', () => undefined)
    t.teardown(() => socket.destroy())
  }
  return [near, far]
}

void tap.test(
  'a source that is stopped in the middle of a large write reads nothing over it',
  async (t) => {
    const [near, far] = await openPooled(t)
    const [to, sink] = await openSocketPair(t)
    const carrier = new PooledCarrier(near, to)
    carrier.start()
    const sent = Buffer.alloc(64 * MEBIBYTE, 1)
    far.write(sent)
    await until('it is held', () => to.writableLength > 0 && near.intake.buffer.length > 64 * 1024)
    carrier.stop()
    t.ok(near.destroyed)
    far.write(Buffer.alloc(MEBIBYTE, 2))
    let wrong = 0
    sink.on('data', (bytes: Buffer) => (wrong += bytes.filter((byte) => byte !== 1).length))
    sink.resume()
    await until('what was written has come', () => to.writableLength === 0)
    t.equal(wrong, 0)
  },
)

void tap.test('one that is stopped between writes goes on as a stream', async (t) => {
  const [near, far] = await openPooled(t)
  const [to, sink] = await openSocketPair(t)
  sink.resume()
  const carrier = new PooledCarrier(near, to)
  carrier.start()
  far.write('one')
  await until('it has come', () => sink.bytesRead === 3)
  carrier.stop()
  t.notOk(near.destroyed)
  far.write('two')
  const chunk = await new Promise((resolve) => near.once('data', resolve))
  t.equal(String(chunk), 'two')
})

void tap.test('bytes are taken until there are enough, from what waits on', async (t) => {
  const [near, far] = await openPooled(t)
  far.write('ab')
  await until('they wait', () => near.readableLength === 2)
  const taken: string[] = []
  takeBytes(near, (bytes) => taken.push(bytes.toString()) < 2)
  far.write('cd')
  await until('they are taken', () => taken.length === 2)
  far.write('ef')
  await until('the rest waits', () => near.readableLength === 2)
  t.strictSame(taken, ['ab', 'cd'])
  t.equal(String(near.read()), 'ef')
})

void tap.test('its streams are told nothing but what Node tells those of every socket', (t) => {
  const pooled = new PooledSocket()
  const plain = new Socket({ allowHalfOpen: true })
  t.strictSame(optionsOf(pooled), optionsOf(plain))
  t.match(optionsOf(pooled), { emitClose: [false, false], decodeStrings: false })
  for (const socket of [pooled, plain]) socket.destroy()
  t.end()
})

/** What the streams of a socket were told, which is not documented. */
function optionsOf(socket: Socket) {
  type State = Record<string, unknown>
  const { _readableState, _writableState } = socket as unknown as Record<string, State>
  const both = (name: string) => [_readableState?.[name], _writableState?.[name]]
  return {
    emitClose: both('emitClose'),
    autoDestroy: both('autoDestroy'),
    objectMode: both('objectMode'),
    highWaterMark: both('highWaterMark'),
    decodeStrings: _writableState?.['decodeStrings'],
    allowHalfOpen: socket.allowHalfOpen,
  }
}
