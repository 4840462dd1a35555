import type { Test } from 'tap'
import type { EventData } from '../../../src/events/event.ts'
import { recordsOf } from '../event-records.ts'
import type { Battery } from './battery.ts'
import type { World } from './far-side.ts'

/** What the allowed target answers in every sealed run. */
export const WELCOMES = [
  ['HTTP', 'welcome\n'],
  ['TLS', 'welcome\n'],
  ['HTTP, unaware', 'welcome\n'],
  ['TLS, unaware', 'welcome\n'],
]

/** What the outside world may hear of a sealed run: the allowed name, asked for what is allowed. */
export const WELCOME = /^(?:tls allowed\.test|http allowed\.test (?:GET|POST) \S*\/allowed)$/

/** Asserts that nothing got out of a sealed run, that the allowed target did, and that nobody else was touched. */
export function assertSealed(t: Test, door: 'netns' | 'sidecar', battery: Battery): void {
  const records = recordsOf(t, battery.events)
  t.match(
    records.filter(({ type }) => type === 'sandbox_network_sealed'),
    [{ data: { door } }],
    'it was that door',
  )
  const stopped = records.find(({ type }) => type === 'sandbox_stopped')
  t.match(stopped, { data: { status: 'finished', left_behind: [] } })
  const { attempts, welcomed, outside, host, lookups, neighbour, git } = battery
  t.strictSame(
    welcomed.map(({ name, text }) => [name, text]),
    WELCOMES,
    'what is allowed is reached',
  )
  t.strictSame(
    attempts.filter(({ out }) => out),
    [],
    `none of ${attempts.length} techniques got anything`,
  )
  t.strictSame(
    outside.filter((line) => !WELCOME.test(line)),
    [],
    'the outside world heard nobody who was not allowed',
  )
  t.strictSame(host, [], 'nothing on this machine heard anybody')
  t.strictSame(
    lookups.filter((name) => !name.endsWith('.inside.test')),
    [],
    'no denied name was looked up',
  )
  t.ok(lookups.includes('loopback.inside.test'), 'names that are allowed were')
  t.equal(git.after, git.before, 'git obeys what it obeyed')
  t.equal(neighbour.after, neighbour.before, 'the other run is as it was')
}

/** Asserts that a run's own events say what was blocked and why. */
export function assertBlocked(
  t: Test,
  blocked: readonly EventData<'network_blocked'>[],
  world: World,
): void {
  const told = new Set(blocked.map(({ host, port, reason }) => `${host}:${port} ${reason}`))
  for (const [target, reason] of [
    ['denied.test:80', 'no-rule'],
    ['denied.test:443', 'no-rule'],
    ['stolen-data.denied.test:80', 'no-rule'],
    ['sub.allowed.test:80', 'no-rule'],
    ['metadata.google.internal:80', 'metadata-address'],
    ['allowed.test:22', 'port'],
    ['allowed.test:8080', 'port'],
    ['allowed.test:443', 'sni'],
    ['169.254.169.254:80', 'metadata-address'],
    [`${world.address}:80`, 'special-address'],
    ['metadata.inside.test:80', 'metadata-address'],
    ['private.inside.test:80', 'special-address'],
  ] as const) {
    t.ok(told.has(`${target} ${reason}`), `the events say ${target} ${reason}`)
  }
}
