import { readFileSync } from 'node:fs'
import tap from 'tap'
import { eventJsonSchema, type EventData, type EventType } from '../../src/events/event.ts'
import { schemaProblems } from '../support/json-schema.ts'

const SCHEMA = eventJsonSchema()

const NETWORK = { host: 'evil.test', port: 443, via: 'connect', generation: 1 } as const

/** One record of each type with every field it can have. */
const FULL: { readonly [T in EventType]: Required<EventData<T>> } = {
  network_blocked: {
    ...NETWORK,
    reason: 'no-rule',
    rule: '!evil.test',
    origin: 'policy.yaml:3',
    address: '203.0.113.1',
    sni: 'evil.test',
    detail: 'no rule allows evil.test:443',
    count: 3,
  },
  network_blocked_summary: { count: 0, quiet: 5 },
  network_allowed: {
    ...NETWORK,
    rule: 'x',
    origin: '--rule:1',
    address: '203.0.113.1',
    in_tunnel: true,
  },
  tunnel_closed: {
    ...NETWORK,
    bytes_up: 0,
    bytes_down: 1,
    ms: 2,
    cause: 'end',
    tls: 'other-sni',
    sni: 'evil.test',
    ech: true,
  },
  policy_loaded: { generation: 1, digest: 'x', rules: 0 },
  policy_rejected: { message: 'x' },
  internal_error: { message: 'x' },
  events_lost: { count: 1, from_ts: '2027-01-01T00:00:00.000Z', to_ts: '2027-01-01T00:00:00.000Z' },
  sandbox_started: {
    image: 'debian:bookworm',
    image_id: 'sha256:00',
    container: 'c0ffee',
    runtime: 'docker',
    user: '1000:1000',
    workspace: '/home/ada/work',
    resolve: ['a.test:127.0.0.1'],
    door: 'netns',
  },
  sandbox_skipped: {
    reason: 'no-runtime',
    seal: 'process',
    code: 'C128',
    file_secrets_dropped: true,
  },
  sandbox_refused: { failure_code: 'SANDBOX_DRIVER_UNAVAILABLE', message: 'x' },
  sandbox_network_defaulted: { preset: 'iterion-default', source: '.devcontainer.json' },
  sandbox_devcontainer_read: {
    file: '.devcontainer.json',
    ignored: [{ key: 'features', reason: 'not supported' }],
    withheld: ['GITHUB_TOKEN'],
  },
  sandbox_env_denied: { source: 'image', names: ['OPENAI_BASE_URL'] },
  sandbox_network_sealed: { door: 'sidecar', strength: 'container' },
  sandbox_network_advisory: { message: 'x' },
  sandbox_host_state_mounted: {
    mounts: [{ source: '/home/ada/.claude', target: '/home/ada/.claude', read_only: true }],
    skipped: [{ path: '/home/ada/.iterion', reason: 'it is not there' }],
  },
  sandbox_user_remap: { from: '', to: '1000:1000' },
  sandbox_uid_mismatch_warning: { user: 'node', caller: '1000:1000', message: 'x' },
  sandbox_floor_applied: { floor: 'ITERION_SANDBOX_FLOOR=auto', shadowed: ['--sandbox none'] },
  sandbox_git_metadata_changed: {
    moved: [{ path: '/w/.git/hooks', to: '/w/.git/hooks.sandboxed-x' }],
    failed: [{ path: '/w/a/.git', reason: 'x' }],
  },
  sandbox_build_started: {
    tag: 'iterion-egress-build:00',
    dockerfile: '/w/Dockerfile',
    builder: 'classic',
  },
  sandbox_build_finished: { tag: 'iterion-egress-build:00', image_id: 'sha256:00' },
  sandbox_build_failed: { tag: 'iterion-egress-build:00', stderr: 'x' },
  sandbox_claw_routed_via_runner: {
    reason: 'x',
    limitations_v1: 'y',
    binary: '/usr/bin/iterion',
  },
  sandbox_fallback_dropped: { node: 'plan', backend: 'codex', reason: 'x' },
  sandbox_setup_slow: { phase: 'pull', knob: 'ITERION_SANDBOX_PULL_TIMEOUT', bound_ms: 600_000 },
  sandbox_setup_timeout: { phase: 'pull', knob: 'ITERION_SANDBOX_PULL_TIMEOUT', bound_ms: 600_000 },
  sandbox_stopped: { status: 'finished', left_behind: [] },
  node_started: { node: 'build', backend: 'tool' },
  node_finished: { node: 'build', exit_code: 137 },
  node_fallback: { node: 'plan', from: 'claude_code', to: 'pi', exit_code: 1 },
}

/** The fields that a record of each type cannot do without. */
const REQUIRED: { readonly [T in EventType]: readonly (keyof EventData<T>)[] } = {
  network_blocked: ['host', 'port', 'via', 'generation', 'reason'],
  network_blocked_summary: ['count', 'quiet'],
  network_allowed: ['host', 'port', 'via', 'generation'],
  tunnel_closed: ['host', 'port', 'via', 'generation', 'bytes_up', 'bytes_down', 'ms', 'cause'],
  policy_loaded: ['generation', 'digest', 'rules'],
  policy_rejected: ['message'],
  internal_error: ['message'],
  events_lost: ['count', 'from_ts', 'to_ts'],
  sandbox_started: [
    'image',
    'image_id',
    'container',
    'runtime',
    'user',
    'workspace',
    'resolve',
    'door',
  ],
  sandbox_skipped: ['reason'],
  sandbox_refused: ['failure_code', 'message'],
  sandbox_network_defaulted: ['preset', 'source'],
  sandbox_devcontainer_read: ['file', 'ignored', 'withheld'],
  sandbox_env_denied: ['source', 'names'],
  sandbox_network_sealed: ['door', 'strength'],
  sandbox_network_advisory: ['message'],
  sandbox_host_state_mounted: ['mounts', 'skipped'],
  sandbox_user_remap: ['from', 'to'],
  sandbox_uid_mismatch_warning: ['user', 'caller', 'message'],
  sandbox_floor_applied: ['floor', 'shadowed'],
  sandbox_git_metadata_changed: ['moved', 'failed'],
  sandbox_build_started: ['tag', 'dockerfile', 'builder'],
  sandbox_build_finished: ['tag', 'image_id'],
  sandbox_build_failed: ['tag', 'stderr'],
  sandbox_claw_routed_via_runner: ['reason', 'limitations_v1'],
  sandbox_fallback_dropped: ['node', 'backend', 'reason'],
  sandbox_setup_slow: ['phase', 'knob', 'bound_ms'],
  sandbox_setup_timeout: ['phase', 'knob', 'bound_ms'],
  sandbox_stopped: ['status', 'left_behind'],
  node_started: ['node', 'backend'],
  node_finished: ['node', 'exit_code'],
  node_fallback: ['node', 'from', 'to', 'exit_code'],
}

const record = (type: string, data: unknown) => ({
  v: 1,
  seq: 1,
  ts: '2027-01-01T00:00:00.000Z',
  run_id: null,
  type,
  data,
})

const isValid = (value: unknown) => schemaProblems(SCHEMA, value).length === 0

void tap.test('docs/events.schema.json is what the code says', async (t) => {
  const text = readFileSync(new URL('../../docs/events.schema.json', import.meta.url), 'utf8')
  t.equal(text, `${JSON.stringify(SCHEMA, null, 2)}\n`)
})

void tap.test(
  'a record of each type is valid with all of its fields, and with the few it needs',
  async (t) => {
    for (const [type, data] of Object.entries(FULL)) {
      t.ok(isValid(record(type, data)), type)
      const needed: readonly string[] = REQUIRED[type as EventType]
      const least = Object.fromEntries(
        Object.entries(data).filter(([name]) => needed.includes(name)),
      )
      t.ok(isValid(record(type, least)), `${type} with ${needed.join(', ')}`)
      for (const name of needed) {
        const { [name]: _, ...rest } = least
        t.notOk(isValid(record(type, rest)), `${type} without ${name}`)
      }
    }
  },
)

void tap.test('a field or a type that nobody has heard of is refused', async (t) => {
  for (const [type, data] of Object.entries(FULL)) {
    t.notOk(isValid(record(type, { ...data, token: 'x' })), type)
    t.notOk(isValid({ ...record(type, data), level: 30 }), type)
  }
  t.notOk(isValid(record('network_unknown', NETWORK)))
  t.notOk(isValid(record('policy_loaded', FULL.internal_error)), 'the data of another type')
})

void tap.test('values of the wrong kind are refused', async (t) => {
  const blocked = (more: object) => record('network_blocked', { ...FULL.network_blocked, ...more })
  t.ok(isValid(blocked({ via: 'socks', port: 0 })))
  for (const more of [
    { via: 'pigeon' },
    { port: -1 },
    { port: 65_536 },
    { port: '443' },
    { port: 1.5 },
    { generation: -1 },
    { host: null },
    { count: -1 },
  ]) {
    t.notOk(isValid(blocked(more)), JSON.stringify(more))
  }
  const good = record('policy_rejected', FULL.policy_rejected)
  t.ok(isValid({ ...good, run_id: 'run-1' }))
  for (const more of [{ v: 2 }, { seq: 0 }, { seq: 1.5 }, { ts: 1 }, { run_id: 7 }]) {
    t.notOk(isValid({ ...good, ...more }), JSON.stringify(more))
  }
})
