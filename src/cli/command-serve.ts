import { type EventLog, openEventLog } from '../events/event-log.ts'
import { createEgressProxy } from '../proxy/egress-proxy.ts'
import { systemResolver } from '../proxy/system-resolver.ts'
import { announce } from './announce.ts'
import { EXIT, type ExitCode } from './exit-codes.ts'
import type { Io } from './io.ts'
import { policyFrom } from './policy-options.ts'
import { renderJson } from './render.ts'
import { parseResolveOptions } from './resolve-option.ts'
import {
  parseLimits,
  parseListen,
  parseWorkers,
  readToken,
  type ServeOptions,
} from './serve-options.ts'
import type { ServeRequest, Serving } from './serving.ts'
import { tuneForConnections } from './tune.ts'

/** `serve`: runs a proxy until it is told to end, then drains it. */
export async function runServe(io: Io, options: ServeOptions): Promise<ExitCode> {
  tuneForConnections()
  const token = readToken(io, options)
  const { serving, log, ended } = await start(io, options, token)
  try {
    io.onAsked(async () => io.stderr(renderJson(await serving.stats())))
    announce(io, options, serving.bound, token)
    await Promise.race([ended, serving.lost])
  } finally {
    await serving.close()
    await log?.close()
  }
  return EXIT.yes
}

interface Started {
  readonly serving: Serving
  readonly log: EventLog | undefined
  /** Settles when the process is asked to end. */
  readonly ended: Promise<void>
}

/** Reads all that it takes, and serves. What was read is not kept longer than that: a policy may be large. */
async function start(io: Io, options: ServeOptions, token: string | undefined): Promise<Started> {
  const workers = parseWorkers(options.workers)
  const request = {
    options,
    listen: parseListen(options.listen),
    composed: policyFrom(options),
    token,
    limits: parseLimits(options.limit),
  }
  const log =
    options.events === undefined
      ? undefined
      : openEventLog(options.events, { runId: options.runId ?? null })
  const onEvent: ServeRequest['onEvent'] = log && ((event) => log.write(event))
  const ended = new Promise<void>((resolve) => io.onTerminate(resolve))
  try {
    const serving =
      workers === 1
        ? await serveHere({ ...request, onEvent })
        : await serveByWorkers(io, workers, { ...request, onEvent })
    return { serving, log, ended }
  } catch (error) {
    await log?.close()
    throw error
  }
}

/** Serves in this process. */
async function serveHere(request: ServeRequest): Promise<Serving> {
  const { options, listen, composed, token, limits, onEvent } = request
  const proxy = createEgressProxy({
    policy: composed.policy,
    resolver: parseResolveOptions(options.resolve).toResolver(systemResolver),
    limits,
    audit: options.audit === true,
    ...(options.relay && { relay: options.relay }),
    insecureNoAuth: options.insecureNoAuth === true,
    ...(token !== undefined && { token }),
    ...(onEvent && { onEvent }),
  })
  const bound = await proxy.listen(listen)
  return {
    bound,
    lost: new Promise(() => undefined),
    stats: () => proxy.stats(),
    close: () => proxy.close(),
  }
}

/** Serves in workers, which are loaded only then. */
async function serveByWorkers(io: Io, workers: number, request: ServeRequest): Promise<Serving> {
  const { serveByWorkers: serve } = await import('./serve-by-workers.ts')
  return serve(io, workers, request)
}
