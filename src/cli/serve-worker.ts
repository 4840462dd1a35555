import { closeDebugger } from '../debugger.ts'
import { systemResolver } from '../proxy/system-resolver.ts'
import type { ToWorker } from '../workers/messages.ts'
import { runWorker } from '../workers/worker.ts'
import { parseResolveOptions } from './resolve-option.ts'
import { tuneForConnections } from './tune.ts'

// A program of its own: a worker of `serve --workers`. What it serves by comes over the channel of its parent alone.

/** A terminal and a service manager tell these to all processes; the primary is the one that answers them. */
const OF_THE_PRIMARY: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGUSR2']

closeDebugger()
for (const signal of OF_THE_PRIMARY) process.on(signal, () => undefined)
// Nobody would record any more what it does.
process.on('disconnect', () => process.exit(1))
tuneForConnections()
runWorker({
  send: (message, done = () => undefined) =>
    void process.send?.(message, undefined, {}, () => done()),
  onMessage: (listener) => void process.on('message', (message) => listener(message as ToWorker)),
  exit: (code) => process.exit(code),
  resolverOf: (resolve) => parseResolveOptions(resolve).toResolver(systemResolver),
})
