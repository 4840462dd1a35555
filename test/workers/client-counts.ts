import tap from 'tap'
import { ClientCounts } from '../../src/workers/client-counts.ts'

void tap.test('a client has as many as it may have, over all workers', async (t) => {
  const counts = new ClientCounts<string>(2)
  t.equal(counts.enter('a', '10.0.0.1'), undefined)
  t.equal(counts.enter('b', '10.0.0.1'), undefined)
  t.equal(counts.enter('a', '10.0.0.1'), 2)
  t.equal(counts.enter('a', '10.0.0.2'), undefined, 'another client')
  counts.leave('b', '10.0.0.1')
  t.equal(counts.enter('a', '10.0.0.1'), undefined)
})

void tap.test('a worker gives back no more than it has', async (t) => {
  const counts = new ClientCounts<string>(1)
  counts.enter('a', '10.0.0.1')
  counts.leave('b', '10.0.0.1')
  t.equal(counts.enter('b', '10.0.0.1'), 1)
})

void tap.test('what a worker had is forgotten with it', async (t) => {
  const counts = new ClientCounts<string>(2)
  counts.enter('a', '10.0.0.1')
  counts.enter('b', '10.0.0.1')
  counts.forget('a')
  t.equal(counts.enter('b', '10.0.0.1'), undefined)
  t.equal(counts.enter('b', '10.0.0.1'), 2)
  counts.forget('b')
  counts.forget('b')
  t.equal(counts.enter('a', '10.0.0.1'), undefined)
})
