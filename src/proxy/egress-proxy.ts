import { randomBytes } from 'node:crypto'
import { createServer, type Server, type Socket } from 'node:net'
import { EgressError } from '../errors.ts'
import type { EgressEvent } from '../events/event.ts'
import type { DenyReason } from '../policy/decide.ts'
import type { Policy } from '../policy/policy.ts'
import type { AddressNames } from './address-names.ts'
import { createAuthenticator } from './authenticate.ts'
import { ConnectionServer } from './connection.ts'
import type { ProxyCore } from './core.ts'
import { createDialer } from './dial.ts'
import { type Limits, resolveLimits } from './limits.ts'
import { HostAddresses, parseSystemAddress } from './local-addresses.ts'
import {
  acceptFrom,
  chooseRelay,
  connectorOf,
  KEEP_ALIVE_MS,
  type RelayChoice,
  type RelayKind,
} from './sockets.ts'
import { mayReach, recordDeniedName } from './name-queries.ts'
import { Registry } from './registry.ts'
import { resetSocket } from './relay.ts'
import { giveTo } from './socket-owner.ts'
import type { Destination } from './serve-transparent.ts'
import { type SlotKeeper, Slots } from './slots.ts'
import { LookupCache, type Resolver } from './resolver.ts'
import { systemResolver } from './system-resolver.ts'
import { classifyIp } from '../policy/address-kind.ts'

/** How an egress proxy is made. */
export interface EgressProxyOptions {
  /** What is allowed. */
  readonly policy: Policy
  /** The token that clients have to show. Default: none, and then `listen` takes loopback addresses alone. */
  readonly token?: string
  /** Allows listening beyond loopback without a token. Default: false. */
  readonly insecureNoAuth?: boolean
  /** How names are looked up. Default: the system's resolver. */
  readonly resolver?: Resolver
  /** Receives every event. It must not throw and should return at once. Default: events are dropped. */
  readonly onEvent?: (event: EgressEvent) => void
  /** Bounds that go before those of the policy. Default: see {@link Limits}. */
  readonly limits?: Partial<Limits>
  /** Names that clients may call by addresses. Default: none. */
  readonly names?: AddressNames
  /** Emits `network_allowed` too. Default: false. */
  readonly audit?: boolean
  /**
   * How bytes are read. `pooled` reads without an allocation for each read, where this Node.js can; `streams` reads as
   * Node does. Default: `pooled`.
   */
  readonly relay?: RelayKind
  /** Milliseconds since 1970. Default: `Date.now`. */
  readonly now?: () => number
}

/** Where a proxy listens. */
export interface ListenAddress {
  readonly host: string
  readonly port: number
}

/** Where a connection came to; `proxy`: to the proxy itself; undefined: nowhere, and it is reset. */
export type ReadArrival = (socket: Socket) => Destination | 'proxy' | undefined

/** Counters and levels of a proxy. */
export interface EgressProxyStats {
  readonly generation: number
  /** Open client connections. */
  readonly connections: number
  /** Open tunnels. */
  readonly tunnels: number
  /** Look-ups under way. */
  readonly lookups: number
  /** How bytes are read, and why so. */
  readonly relay: RelayChoice
  readonly allowed: number
  readonly denied: Readonly<Partial<Record<DenyReason, number>>>
  /** Bytes that ended tunnels carried from clients to upstreams. */
  readonly bytesUp: number
  /** Bytes that ended tunnels carried from upstreams to clients. */
  readonly bytesDown: number
}

/** An egress proxy. */
export interface EgressProxy {
  /**
   * Starts to accept connections. Port 0 lets the system choose.
   *
   * @throws {EgressError} OPTION_INVALID for an address beyond loopback without a token; LISTEN_FAILED
   */
  listen(address: ListenAddress): Promise<ListenAddress>
  /**
   * Serves the connections of a server that listens already, and closes it with the proxy.
   *
   * @param arrival tells where a client of this server connected to that knows of no proxy. Default: all speak to the proxy
   */
  attach(server: Server, arrival?: ReadArrival): void
  /** True if a canonical name may be reached on some port now: a resolver that clients ask may answer for it. */
  mayReach(name: string): boolean
  /** Counts and records that a client looked up a canonical name which it may not reach. */
  recordDeniedName(name: string): void
  /** Makes a policy hold for all requests from now on; what is under way goes on. Emits `policy_loaded`. */
  setPolicy(policy: Policy): void
  /**
   * Stops accepting, waits for what is under way, then ends it. Further calls answer with the first.
   *
   * @param options.drainTimeoutMs how long to wait; default: the limit of that name
   */
  close(options?: { readonly drainTimeoutMs?: number }): Promise<void>
  stats(): EgressProxyStats
}

/** How long `close` waits for the last `tunnel_closed`, in milliseconds. */
const CLOSE_EVENTS_MS = 500

/** The first version of Node's HTTP parser (llhttp) that refuses every bare CR and LF. */
const OLDEST_PARSER = 9

/** What proxies have in common that are one to their clients: the workers of `serve`. */
export interface ProxyIdentity {
  /** The name in `Via` by which a request that comes back is known. */
  readonly pseudonym: string
  readonly slots: SlotKeeper
}

/** A name for a proxy in `Via`, which no other one has. */
export function createPseudonym(): string {
  return `iterion-egress-${randomBytes(6).toString('hex')}`
}

/**
 * Makes an egress proxy. It keeps no state outside itself: any number of them run in one process.
 *
 * @throws {EgressError} OPTION_INVALID for a token or limit that cannot be used; RUNTIME_UNSUPPORTED for a Node.js
 * whose HTTP parser is too lenient
 */
export function createEgressProxy(options: EgressProxyOptions): EgressProxy {
  return createProxyAs({ pseudonym: createPseudonym(), slots: new Slots() }, options)
}

/** The same, as one of several that pass for one. */
export function createProxyAs(identity: ProxyIdentity, options: EgressProxyOptions): EgressProxy {
  const {
    token,
    insecureNoAuth = false,
    resolver = systemResolver,
    onEvent,
    now = Date.now,
  } = options
  assertStrictParser(process.versions['llhttp'])
  const local = new HostAddresses(now)
  const lookups = new LookupCache(resolver, now)
  const relay = chooseRelay(options.relay)
  const core: ProxyCore = {
    dialer: createDialer({
      lookups,
      local,
      connect: connectorOf(relay),
      limits: () => core.limits,
      now,
    }),
    authenticator: token === undefined ? undefined : createAuthenticator(token),
    names: options.names,
    counters: { allowed: 0, denied: {}, bytesUp: 0, bytesDown: 0 },
    tunnels: new Registry(),
    slots: identity.slots,
    audit: options.audit === true,
    pseudonym: identity.pseudonym,
    now,
    emit: onEvent ?? (() => undefined),
    policy: options.policy,
    generation: 0,
    limits: resolveLimits({ ...options.limits }, options.policy.limits),
    isDraining: false,
  }
  const connections = new ConnectionServer(core)
  const servers = new Set<Server>()
  let closed: Promise<void> | undefined

  const onConnection = (socket: Socket) => connections.accept(socket)
  const onArrival = (socket: Socket, arrival: ReadArrival) => {
    const destination = arrival(socket)
    if (destination === undefined) {
      giveTo(socket, undefined)
      resetSocket(socket)
    } else connections.accept(socket, destination === 'proxy' ? undefined : destination)
  }
  const attach = (server: Server, arrival?: ReadArrival) => {
    assertOpen()
    if (servers.has(server)) return
    servers.add(server)
    // A server whose clients may know of no proxy stands in a sandbox: its address is none of this machine.
    if (arrival === undefined) {
      if (server.listening) local.addListener(server)
      server.on('listening', () => local.addListener(server))
    }
    server.on('error', () => undefined)
    const take = arrival ? (socket: Socket) => onArrival(socket, arrival) : onConnection
    acceptFrom(server, relay, take)
  }
  const setPolicy = (policy: Policy) => {
    core.limits = resolveLimits({ ...options.limits }, policy.limits)
    core.policy = policy
    core.generation++
    connections.renew()
    const { digest, rules } = policy
    core.emit({
      type: 'policy_loaded',
      data: { generation: core.generation, digest, rules: rules.length },
    })
  }
  setPolicy(options.policy)
  const keeping = setInterval(() => {
    connections.keepAlive()
    for (const tunnel of core.tunnels.all()) tunnel.keepAlive()
  }, KEEP_ALIVE_MS).unref()

  return {
    attach,
    setPolicy,
    mayReach: (name) => mayReach(core, name),
    recordDeniedName: (name) => recordDeniedName(core, name),
    async listen(address) {
      if (token === undefined && !insecureNoAuth && !isLoopback(address.host)) {
        throw new EgressError(
          'OPTION_INVALID',
          `listening on ${address.host} without a token would serve strangers; give a token, or say that it is meant (--insecure-no-auth, insecureNoAuth)`,
        )
      }
      assertOpen()
      const server = createServer({ allowHalfOpen: true, noDelay: true })
      const bound = await startListening(server, address)
      if (core.isDraining) server.close()
      attach(server)
      return bound
    },
    close(closeOptions = {}) {
      closed ??= drain(closeOptions.drainTimeoutMs ?? core.limits.drainTimeoutMs)
      return closed
    },
    stats() {
      return {
        generation: core.generation,
        connections: connections.size,
        tunnels: core.tunnels.size,
        lookups: lookups.pending,
        relay,
        allowed: core.counters.allowed,
        denied: { ...core.counters.denied },
        bytesUp: core.counters.bytesUp,
        bytesDown: core.counters.bytesDown,
      }
    },
  }

  async function drain(timeoutMs: number): Promise<void> {
    core.isDraining = true
    const stopped = [...servers].map((server) => stopListening(server))
    connections.endIdle()
    await waitUntil(() => connections.size === 0, timeoutMs)
    for (const tunnel of core.tunnels.all()) tunnel.destroy('drain')
    connections.endAll()
    // A server may have connections that it took before it was attached: they are not waited for.
    let isStopped = false
    void Promise.all(stopped).then(() => (isStopped = true))
    await waitUntil(() => isStopped && core.tunnels.size === 0, CLOSE_EVENTS_MS)
    clearInterval(keeping)
    for (const server of servers) local.removeListener(server)
  }

  function assertOpen(): void {
    if (core.isDraining) throw new EgressError('OPTION_INVALID', 'the proxy is closed')
  }
}

function assertStrictParser(version: string | undefined): void {
  if (Number(version?.split('.')[0]) >= OLDEST_PARSER) return
  throw new EgressError(
    'RUNTIME_UNSUPPORTED',
    `the HTTP parser of Node.js ${process.version} lets malformed requests pass; use Node.js 20.19.2 or newer`,
  )
}

function isLoopback(host: string): boolean {
  const ip = parseSystemAddress(host)
  return host === 'localhost' || (ip !== undefined && classifyIp(ip).kind === 'loopback')
}

function startListening(server: Server, { host, port }: ListenAddress): Promise<ListenAddress> {
  return new Promise((resolve, reject) => {
    const onError = (error: NodeJS.ErrnoException) => {
      const why = error.code === 'EADDRINUSE' ? 'the port is taken' : (error.code ?? error.message)
      reject(
        new EgressError('LISTEN_FAILED', `cannot listen on ${host}:${port}: ${why}`, {
          cause: error,
        }),
      )
    }
    server.once('error', onError)
    server.listen({ host, port }, () => {
      server.removeListener('error', onError)
      server.on('error', () => undefined)
      const address = server.address()
      if (address === null || typeof address === 'string') throw new TypeError('no address')
      resolve({ host: address.address, port: address.port })
    })
  })
}

function stopListening(server: Server): Promise<void> {
  return new Promise((resolve) => {
    // With an error for a server that is closed already. Its connections are not its own: `connections` waits for them.
    server.close(() => resolve())
  })
}

async function waitUntil(isDone: () => boolean, timeoutMs: number): Promise<void> {
  // What has only to be told that it ended is over in a turn.
  for (let turn = 0; turn < 3 && !isDone(); turn++) {
    await new Promise((resolve) => setImmediate(resolve))
  }
  const step = 20
  for (let waited = 0; waited < timeoutMs && !isDone(); waited += step) {
    await new Promise((resolve) => setTimeout(resolve, Math.min(step, timeoutMs - waited)))
  }
}
