import tap from 'tap'
import type { EgressEvent } from '../../src/events/event.ts'
import { runPhase } from '../../src/sandbox/phase.ts'

const PHASE = { name: 'create', knob: 'ITERION_SANDBOX_CREATE_TIMEOUT' } as const

/** Work that ends when it is told to. */
function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(new Error('aborted')))
  })
}

void tap.test('work within its bound says nothing', async (t) => {
  const events: EgressEvent[] = []
  const result = await runPhase(
    { ...PHASE, boundMs: 60_000 },
    (event) => events.push(event),
    new AbortController().signal,
    () => Promise.resolve(5),
  )
  t.equal(result, 5)
  t.strictSame(events, [])
})

void tap.test('half way it is slow, at the bound it is over', async (t) => {
  const events: EgressEvent[] = []
  const running = runPhase(
    { ...PHASE, boundMs: 60 },
    (event) => events.push(event),
    new AbortController().signal,
    untilAborted,
  )
  await t.rejects(running, {
    code: 'SANDBOX_SETUP_TIMEOUT',
    message:
      'the phase create took longer than 0.06 s; ITERION_SANDBOX_CREATE_TIMEOUT sets its bound',
  })
  const data = { phase: 'create', knob: 'ITERION_SANDBOX_CREATE_TIMEOUT', bound_ms: 60 }
  t.strictSame(events, [
    { type: 'sandbox_setup_slow', data },
    { type: 'sandbox_setup_timeout', data },
  ])
})

void tap.test('work that comes to an end after the bound is over all the same', async (t) => {
  const running = runPhase(
    { ...PHASE, boundMs: 20 },
    () => undefined,
    new AbortController().signal,
    (signal) =>
      new Promise((resolve) => {
        signal.addEventListener('abort', () => resolve('late'))
      }),
  )
  await t.rejects(running, { code: 'SANDBOX_SETUP_TIMEOUT' })
})

void tap.test('a failure of the work is its own', async (t) => {
  const running = runPhase(
    { ...PHASE, boundMs: 60_000 },
    () => undefined,
    new AbortController().signal,
    () => Promise.reject(new Error('no space')),
  )
  await t.rejects(running, { message: 'no space' })
})

void tap.test('a cancelled run is no timeout', async (t) => {
  const control = new AbortController()
  const events: EgressEvent[] = []
  const running = runPhase(
    { ...PHASE, boundMs: 60_000 },
    (event) => events.push(event),
    control.signal,
    untilAborted,
  )
  control.abort(new Error('cancelled'))
  await t.rejects(running, { message: 'cancelled' })
  t.strictSame(events, [])
  await t.rejects(
    runPhase(
      { ...PHASE, boundMs: 60_000 },
      () => undefined,
      control.signal,
      () => t.fail('nothing may start') as never,
    ),
    { message: 'cancelled' },
  )
})
