import { programFile } from '../door/program-file.ts'
import { createPseudonym } from '../proxy/egress-proxy.ts'
import { joinLimits } from '../proxy/limits.ts'
import { startWorkers } from '../workers/start-workers.ts'
import type { Io } from './io.ts'
import { parseResolveOptions } from './resolve-option.ts'
import type { ServeRequest, Serving } from './serving.ts'

/** Serves in processes of their own. This one keeps them running, counts for them and writes their events down. */
export async function serveByWorkers(
  io: Io,
  count: number,
  { options, listen, composed, token, limits, onEvent }: ServeRequest,
): Promise<Serving> {
  const { policy, parts } = composed
  // Each worker reads them too; what is wrong with them is told before there is one.
  parseResolveOptions(options.resolve)
  return startWorkers({
    count,
    program: programFile('serve-worker'),
    limits: joinLimits(limits, policy.limits),
    setup: {
      listen,
      parts,
      digest: policy.digest,
      pseudonym: createPseudonym(),
      token,
      insecureNoAuth: options.insecureNoAuth === true,
      limits,
      resolve: options.resolve,
      audit: options.audit === true,
      relay: options.relay,
    },
    ...(onEvent && { onEvent }),
    onLoss: (sentence) => io.stderr(`warning: ${sentence}\n`),
  })
}
