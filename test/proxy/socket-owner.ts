import { Socket } from 'node:net'
import tap from 'tap'
import { giveTo } from '../../src/proxy/socket-owner.ts'
import { until } from '../support/proxy.ts'
import { openSocketPair } from '../support/socket-pair.ts'

void tap.test('the owner of a moment is told, and nobody else', async (t) => {
  const [near, far] = await openSocketPair(t)
  const told: string[] = []
  const ownerCalled = (name: string) => ({
    onEnd: (socket: Socket) => told.push(`${name}: end ${socket === near}`),
    onError: (socket: Socket, { code }: NodeJS.ErrnoException) =>
      told.push(`${name}: ${code} ${socket === near}`),
    onClose: (socket: Socket, hadError: boolean) =>
      told.push(`${name}: close ${socket === near} ${hadError}`),
  })
  giveTo(near, ownerCalled('first'))
  giveTo(near, ownerCalled('second'))
  near.resume()
  far.end()
  await until('the end is told', () => told.length === 1)
  giveTo(near, ownerCalled('third'))
  near.destroy(Object.assign(new Error('no more'), { code: 'EPIPE' }))
  await until('all is told', () => told.length === 3)
  t.strictSame(told, ['second: end true', 'third: EPIPE true', 'third: close true true'])
})

void tap.test('a socket that nobody owns may fail', async (t) => {
  const [near] = await openSocketPair(t)
  giveTo(near, undefined)
  near.destroy(new Error('unheard'))
  await until('it is gone', () => near.closed)
  t.equal(near.errored?.message, 'unheard')
})

void tap.test('the hands that a socket goes through leave nothing on it', (t) => {
  const socket = new Socket()
  giveTo(socket, {})
  const counts = () => socket.eventNames().map((name) => [name, socket.listenerCount(name)])
  const before = counts()
  for (let i = 0; i < 20; i++) giveTo(socket, i % 2 === 0 ? {} : undefined)
  t.strictSame(counts(), before)
  socket.destroy()
  t.end()
})
