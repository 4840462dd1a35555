import cluster from 'node:cluster'
import type { FromWorker, ToWorker } from './messages.ts'

/** A process that serves for the primary. */
export interface WorkerProcess {
  readonly pid: number | undefined
  send(message: ToWorker): void
  /** Ends it at once. */
  kill(): void
}

interface WorkerListeners {
  readonly onMessage: (message: FromWorker) => void
  /** Called once, when it has ended and all that it said has come. */
  readonly onEnd: (how: string) => void
}

/**
 * Starts a worker. All of them accept from one listening socket, and the kernel chooses among those that wait: the primary
 * handles no connection. Nothing is said in arguments, and the token of the environment is taken out.
 *
 * @param program the file of the worker's program
 */
export function startWorkerProcess(
  program: string,
  { onMessage, onEnd }: WorkerListeners,
): WorkerProcess {
  cluster.schedulingPolicy = cluster.SCHED_NONE
  cluster.setupPrimary({ exec: program, args: [], serialization: 'advanced' })
  const worker = cluster.fork({ ITERION_EGRESS_TOKEN: undefined })
  const child = worker.process
  let how: string | undefined
  let hasEnded = false
  const end = () => {
    // What it said last may come after its exit.
    if (hasEnded || how === undefined || worker.isConnected()) return
    hasEnded = true
    onEnd(how)
  }
  worker.on('message', (message: FromWorker) => onMessage(message))
  worker.on('error', (error) => {
    if (child.pid !== undefined) return
    how = `could not be started: ${error.message}`
    if (worker.isConnected()) worker.disconnect()
    end()
  })
  worker.on('exit', (code, signal) => {
    how ??= signal ? `was ended by ${signal}` : `ended with code ${code}`
    end()
  })
  worker.on('disconnect', end)
  return {
    pid: child.pid,
    send(message) {
      // One that is gone is told by its end.
      if (worker.isConnected()) child.send(message, undefined, {}, () => undefined)
    },
    kill: () => void child.kill('SIGKILL'),
  }
}
