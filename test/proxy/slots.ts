import { Socket } from 'node:net'
import tap from 'tap'
import { DEFAULT_LIMITS } from '../../src/proxy/limits.ts'
import { Slots } from '../../src/proxy/slots.ts'
import { openSocketPair } from '../support/socket-pair.ts'

void tap.test('a slot is one connection, however often it is taken or freed', async (t) => {
  const slots = new Slots()
  const [one] = await openSocketPair(t)
  const [other] = await openSocketPair(t)
  slots.take(one, DEFAULT_LIMITS)
  slots.take(other, DEFAULT_LIMITS)
  t.equal(slots.size, 2)
  slots.free(one)
  slots.free(one)
  t.equal(slots.size, 1)
})

void tap.test('those of a client are counted from before anybody asked', async (t) => {
  const slots = new Slots()
  const [one] = await openSocketPair(t)
  const [other] = await openSocketPair(t)
  const stranger = new Socket()
  slots.take(one, DEFAULT_LIMITS)
  slots.take(stranger, DEFAULT_LIMITS)
  t.equal(slots.ofClient(one), 1)
  slots.take(other, DEFAULT_LIMITS)
  t.equal(slots.ofClient(one), 2, 'its address is what they have in common')
  t.equal(slots.ofClient(stranger), 1)
  slots.free(one)
  slots.free(one)
  t.equal(slots.ofClient(other), 1)
  slots.free(other)
  t.equal(slots.ofClient(other), 0)
  t.equal(slots.ofClient(stranger), 1)
})

void tap.test("a connection that has closed is still its client's", async (t) => {
  const slots = new Slots()
  const [one] = await openSocketPair(t)
  slots.take(one, DEFAULT_LIMITS)
  t.equal(slots.ofClient(one), 1)
  one.destroy()
  await new Promise((resolve) => one.once('close', resolve))
  slots.free(one)
  const [next] = await openSocketPair(t)
  t.equal(slots.ofClient(next), 0)
})

void tap.test('there is none beyond a limit, and it says which', async (t) => {
  const slots = new Slots()
  const [one] = await openSocketPair(t)
  const [other] = await openSocketPair(t)
  const limits = { ...DEFAULT_LIMITS, maxTunnels: 1 }
  t.equal(slots.take(one, limits), undefined)
  t.match(slots.take(other, limits), { status: 503, detail: /^1 tunnels are open/ })
  const ofClient = { ...DEFAULT_LIMITS, maxTunnelsPerClient: 1 }
  t.match(slots.take(other, ofClient), { status: 429, detail: /^this client has 1 tunnels/ })
  t.equal(slots.size, 1)
  slots.free(one)
  t.equal(slots.take(other, limits), undefined)
})
