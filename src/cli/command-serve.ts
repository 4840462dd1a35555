import { openEventLog } from '../events/event-log.ts'
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
  const workers = parseWorkers(options.workers)
  const request = {
    options,
    listen: parseListen(options.listen),
    composed: policyFrom(options),
    token: readToken(io, options),
    limits: parseLimits(options.limit),
  }
  const log =
    options.events === undefined
      ? undefined
      : openEventLog(options.events, { runId: options.runId ?? null })
  const onEvent: ServeRequest['onEvent'] = log && ((event) => log.write(event))
  try {
    const ended = new Promise<void>((resolve) => io.onTerminate(resolve))
    const serving =
      workers === 1
        ? await serveHere({ ...request, onEvent })
        : await serveByWorkers(io, workers, { ...request, onEvent })
    io.onAsked(async () => io.stderr(renderJson(await serving.stats())))
    try {
      announce(io, options, serving.bound, request.token)
      await Promise.race([ended, serving.lost])
    } finally {
      await serving.close()
    }
  } finally {
    await log?.close()
  }
  return EXIT.yes
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
