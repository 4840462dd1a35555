import { type AddressInfo, createServer, type Socket } from 'node:net'
import type { Test } from 'tap'
import {
  type EgressEvent,
  type EventData,
  eventJsonSchema,
  type EventType,
} from '../../src/events/event.ts'
import { compilePolicy } from '../../src/policy/compile.ts'
import { DEFAULT_TLS } from '../../src/policy/parse.ts'
import type { Mode, Policy, TlsPolicy } from '../../src/policy/policy.ts'
import {
  createEgressProxy,
  type EgressProxy,
  type EgressProxyOptions,
} from '../../src/proxy/egress-proxy.ts'
import type { ResolverAnswer } from '../../src/proxy/resolver.ts'
import type { RelayKind } from '../../src/proxy/sockets.ts'
import { schemaProblems } from './json-schema.ts'
import { ruleOf, type Written } from './policy-of.ts'
import { openRaw, type RawClient } from './raw-client.ts'

/** The relay that all proxies of the tests have; `TEST_RELAY=streams` runs them with the other one. */
export const RELAY: RelayKind = process.env['TEST_RELAY'] === 'streams' ? 'streams' : 'pooled'

/** Where a name leads in a test: a port of this machine, a server, or any answers at all. */
export type Place =
  | number
  | { readonly host: string; readonly port: number }
  | readonly ResolverAnswer[]
  | (() => readonly ResolverAnswer[] | Promise<readonly ResolverAnswer[]>)

interface ProxyParts extends Omit<Partial<EgressProxyOptions>, 'policy'> {
  readonly mode?: Mode
  /** Default: `allowed.test` and one label below it, on every port. */
  readonly rules?: readonly Written[]
  readonly quiet?: readonly Written[]
  readonly tls?: Partial<TlsPolicy>
  readonly policy?: Policy
  /** What the names are. A name that is not here has no address. */
  readonly hosts?: Readonly<Record<string, Place>>
  readonly listenHost?: string
}

/** A proxy on loopback with everything it did. */
export interface TestProxy {
  readonly proxy: EgressProxy
  readonly host: string
  readonly port: number
  readonly events: readonly EgressEvent[]
  /** The names that were looked up, in order. */
  readonly lookups: readonly string[]
  /** The records of one type. */
  of<T extends EventType>(type: T): EventData<T>[]
  /** The reasons of the blocks so far. */
  readonly reasons: readonly string[]
  /** Waits for the record of that number of a type, from 0. */
  event<T extends EventType>(type: T, index?: number): Promise<EventData<T>>
  client(send?: string | Buffer): Promise<RawClient>
  /** A tunnel that is open; `early` goes out behind the answer. */
  tunnel(target: string, early?: string | Buffer): Promise<RawClient>
}

export const ALLOWED: readonly Written[] = [
  { host: 'allowed.test', ports: ['*'] },
  { host: '*.allowed.test', ports: ['*'] },
]

export const ESTABLISHED = 'HTTP/1.1 200 Connection Established\r\n\r\n'

const SCHEMA = eventJsonSchema()

/** The policy of these parts. */
export function policyWith(parts: Pick<ProxyParts, 'mode' | 'rules' | 'quiet' | 'tls'>): Policy {
  const { mode = 'allowlist', rules = mode === 'allowlist' ? ALLOWED : [], quiet = [], tls } = parts
  return compilePolicy({
    mode,
    rules: rules.map((rule, i) => ruleOf(rule, i + 1)),
    quiet: quiet.map((rule, i) => ruleOf(rule, i + 1)),
    tls: { ...DEFAULT_TLS, ...tls },
  })
}

/** Starts a proxy on loopback. Every record it emits is held to the schema, and no warning may come up. */
export async function openProxy(t: Test, parts: ProxyParts = {}): Promise<TestProxy> {
  const { hosts = {}, listenHost = '127.0.0.1', mode, rules, quiet, tls, ...options } = parts
  const events: EgressEvent[] = []
  const lookups: string[] = []
  failOnWarnings(t)
  const policy =
    parts.policy ??
    policyWith({
      ...(mode && { mode }),
      ...(rules && { rules }),
      ...(quiet && { quiet }),
      ...(tls && { tls }),
    })
  const proxy = createEgressProxy({
    relay: RELAY,
    resolver: async (name) => {
      lookups.push(name)
      return answersOf(hosts[name])
    },
    ...options,
    policy,
    onEvent(event) {
      events.push(event)
      const { type, data } = event
      const record = { v: 1, seq: events.length, ts: '2027-01-01T00:00:00.000Z', run_id: null }
      const problems = schemaProblems(SCHEMA, { ...record, type, data })
      if (problems.length > 0) t.fail(`${type} is not by the schema`, { problems, data })
      options.onEvent?.(event)
    },
  })
  const { host, port } = await proxy.listen({ host: listenHost, port: 0 })
  t.teardown(async () => {
    await proxy.close({ drainTimeoutMs: 0 })
  })
  const of = <T extends EventType>(type: T) =>
    events.filter((event) => event.type === type).map(({ data }) => data as EventData<T>)
  const client = (send?: string | Buffer) =>
    openRaw(t, port, { host, ...(send !== undefined && { send }) })
  return {
    proxy,
    host,
    port,
    events,
    lookups,
    of,
    get reasons() {
      return of('network_blocked').map(({ reason }) => reason)
    },
    async event<T extends EventType>(type: T, index = 0) {
      for (let waited = 0; ; waited += 5) {
        const found = of(type)[index]
        if (found) return found
        if (waited > 3_000) throw new Error(`no ${type} ${index}: ${JSON.stringify(events)}`)
        await new Promise((resolve) => setTimeout(resolve, 5))
      }
    },
    client,
    async tunnel(target, early = '') {
      const opened = await client(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`)
      const { status } = await opened.answer({ connect: true })
      if (status !== 200) throw new Error(`no tunnel to ${target}: ${opened.text}`)
      if (early.length > 0) opened.send(early)
      return opened
    },
  }
}

let currentTest: Test | undefined

/** A warning of Node's, such as too many listeners on one socket, fails the test that runs. */
function failOnWarnings(t: Test): void {
  if (currentTest === undefined) {
    process.on('warning', ({ message }) => currentTest?.fail(`a warning: ${message}`))
  }
  currentTest = t
}

async function answersOf(place: Place | undefined): Promise<readonly ResolverAnswer[]> {
  if (place === undefined) return []
  if (typeof place === 'number') return [{ address: '127.0.0.1', port: place, given: true }]
  if (typeof place === 'function') return place()
  return 'host' in place ? [{ address: place.host, port: place.port, given: true }] : place
}

/** Waits until something holds. */
export async function until(what: string, holds: () => boolean, patienceMs = 3_000): Promise<void> {
  for (let waited = 0; !holds(); waited += 5) {
    if (waited > patienceMs) throw new Error(`it never came to this: ${what}`)
    await pause(5)
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/** A further listener of a proxy, of which the proxy's own end of each connection can be seen. */
export interface Watched {
  client(send: string | Buffer): Promise<RawClient>
  /** Waits until the proxy has read every byte that was sent. */
  untilRead(): Promise<void>
}

/** Attaches a listener that can be watched. */
export async function watch(t: Test, { proxy }: TestProxy): Promise<Watched> {
  const sockets: Socket[] = []
  let sent = 0
  const server = createServer({ allowHalfOpen: true }, (socket) => sockets.push(socket))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  proxy.attach(server)
  const { port } = server.address() as AddressInfo
  return {
    client(send) {
      sent += Buffer.byteLength(send, 'latin1')
      return openRaw(t, port, { send })
    },
    untilRead: () =>
      until(
        'all is read',
        () => sent === sockets.reduce((sum, socket) => sum + socket.bytesRead, 0),
      ),
  }
}
