import { EgressError } from '../errors.ts'
import type { EgressEvent } from '../events/event.ts'
import type { EgressProxyStats, ListenAddress } from '../proxy/egress-proxy.ts'
import type { Limits } from '../proxy/limits.ts'
import { ClientCounts } from './client-counts.ts'
import { LeaseBook } from './lease-book.ts'
import type { FromWorker, WorkerSetup } from './messages.ts'
import { sumStats, type WorkersStats } from './sum-stats.ts'
import { startWorkerProcess, type WorkerProcess } from './worker-process.ts'

/** Workers that end this often within this time will not stop to end. */
const MOST_LOSSES = 5
const LOSSES_MS = 10_000
/** How long a worker may take until it serves, in milliseconds. */
const START_MS = 30_000
/** How long a worker may take to say how it stands, in milliseconds. */
const REPORT_MS = 1_000
/** What a worker may take beyond its drain before it is killed, in milliseconds. */
const DRAIN_GRACE_MS = 3_000

interface WorkersOptions {
  /** How many. */
  readonly count: number
  /** The file of the worker's program. */
  readonly program: string
  readonly setup: Omit<WorkerSetup, 'mostTunnels' | 'hasLog'>
  /** The limits that are wanted of all workers together. */
  readonly limits: Limits
  /** Receives every event of every worker. Default: there are none. */
  readonly onEvent?: (event: EgressEvent) => void
  /** Called with a sentence for people when a worker has ended that should not have. */
  readonly onLoss: (sentence: string) => void
  /** How long a worker may take until it serves, in milliseconds. Default: 30,000. */
  readonly startTimeoutMs?: number
}

/** Processes that serve as one proxy. */
export interface Workers {
  readonly bound: ListenAddress
  /** Rejects when workers cannot be kept running. */
  readonly lost: Promise<never>
  stats(): Promise<WorkersStats>
  /** Drains all of them, and settles when the last one has ended and said all it had to say. */
  close(): Promise<void>
}

interface Worker {
  readonly process: WorkerProcess
  /** Runs until it is ready. */
  readonly starting: NodeJS.Timeout
  isReady: boolean
  /** Why it cannot start. */
  failure?: string
  readonly reports: Map<number, (stats: EgressProxyStats) => void>
}

/**
 * Starts workers; settles when all of them accept connections.
 *
 * @throws {EgressError} what the first worker fails with that cannot start
 */
export async function startWorkers(options: WorkersOptions): Promise<Workers> {
  const primary = new Primary(options)
  try {
    await primary.ready
    return primary
  } catch (error) {
    await primary.close()
    throw error
  }
}

/** Keeps the workers running, and counts for them. */
class Primary implements Workers {
  readonly ready: Promise<void>
  readonly lost: Promise<never>
  readonly #options: WorkersOptions
  readonly #setup: WorkerSetup
  readonly #workers = new Set<Worker>()
  readonly #leases: LeaseBook<Worker>
  readonly #clients: ClientCounts<Worker>
  readonly #settleReady: OpenPromise<void>
  readonly #loseAll: (error: EgressError) => void
  /** Where the workers listen that share a socket. */
  #listen: ListenAddress
  #bound: ListenAddress | undefined
  #isServing = false
  #closed: Promise<void> | undefined
  #onEmpty: (() => void) | undefined
  #losses: number[] = []
  #reports = 0

  constructor(options: WorkersOptions) {
    const { count, limits, setup, onEvent } = options
    const { maxTunnels, maxTunnelsPerClient } = limits
    this.#options = options
    this.#setup = { ...setup, mostTunnels: maxTunnels, hasLog: onEvent !== undefined }
    this.#listen = setup.listen
    this.#leases = new LeaseBook(
      maxTunnels === 0 ? Number.MAX_SAFE_INTEGER : maxTunnels,
      {
        lease: ({ process }, slots) => process.send({ kind: 'lease', slots }),
        recall: ({ process }, round) => process.send({ kind: 'recall', round }),
      },
      { workers: count },
    )
    this.#clients = new ClientCounts(maxTunnelsPerClient)
    const ready = openPromise<void>()
    const lost = openPromise<never>()
    this.ready = ready.promise
    this.lost = lost.promise
    this.#settleReady = ready
    this.#loseAll = lost.reject
    for (let i = 0; i < count; i++) this.#start()
  }

  get bound(): ListenAddress {
    return this.#bound ?? this.#listen
  }

  async stats(): Promise<WorkersStats> {
    const id = ++this.#reports
    const answers = await Promise.all([...this.#workers].map((worker) => reportOf(worker, id)))
    return sumStats(
      this.#options.count,
      answers.filter((one) => one !== undefined),
    )
  }

  close(): Promise<void> {
    this.#closed ??= this.#drain()
    return this.#closed
  }

  async #drain(): Promise<void> {
    if (this.#workers.size === 0) return
    const ended = new Promise<void>((resolve) => (this.#onEmpty = resolve))
    for (const { process, isReady } of this.#workers) {
      // One that does not serve yet has nothing under way.
      if (isReady) process.send({ kind: 'drain' })
      else process.kill()
    }
    const timer = setTimeout(() => {
      for (const { process } of this.#workers) process.kill()
    }, this.#options.limits.drainTimeoutMs + DRAIN_GRACE_MS)
    await ended
    clearTimeout(timer)
  }

  #start(): void {
    const process = startWorkerProcess(this.#options.program, {
      onMessage: (message) => this.#hear(worker, message),
      onEnd: (how) => this.#onEnd(worker, how),
    })
    const starting = setTimeout(() => process.kill(), this.#options.startTimeoutMs ?? START_MS)
    const worker: Worker = { process, starting, isReady: false, reports: new Map() }
    this.#workers.add(worker)
  }

  #hear(worker: Worker, message: FromWorker): void {
    switch (message.kind) {
      case 'up':
        this.#onUp(worker)
        break
      case 'ready':
        this.#onReady(worker, message.bound)
        break
      case 'failed':
        worker.failure = message.message
        this.#settleReady.reject(new EgressError(message.code, message.message))
        break
      case 'events':
        for (const event of message.events) this.#options.onEvent?.(event)
        break
      case 'ask':
        this.#leases.ask(worker, message.slots)
        break
      case 'return':
        this.#leases.giveBack(worker, message.round, message.slots)
        break
      case 'enter': {
        const own = this.#clients.enter(worker, message.client)
        worker.process.send({ kind: 'entered', id: message.id, own })
        break
      }
      case 'leave':
        this.#clients.leave(worker, message.client)
        break
      case 'stats':
        worker.reports.get(message.id)?.(message.stats)
        break
    }
  }

  #onUp(worker: Worker): void {
    const setup = { ...this.#setup, listen: this.#listen }
    worker.process.send({ kind: 'start', setup, leased: this.#leases.join(worker) })
  }

  #onReady(worker: Worker, bound: ListenAddress): void {
    if (this.#bound === undefined) {
      this.#bound = bound
      const { digest, parts } = this.#setup
      const data = { generation: 1, digest, rules: parts.rules.length }
      this.#options.onEvent?.({ type: 'policy_loaded', data })
    } else if (this.#bound.port !== bound.port) {
      // Port 0 is one port only among workers whose times overlap.
      worker.process.kill()
      return
    }
    clearTimeout(worker.starting)
    worker.isReady = true
    if ([...this.#workers].filter(({ isReady }) => isReady).length < this.#options.count) return
    this.#isServing = true
    this.#settleReady.resolve()
  }

  #onEnd(worker: Worker, how: string): void {
    clearTimeout(worker.starting)
    this.#workers.delete(worker)
    this.#leases.leave(worker)
    this.#clients.forget(worker)
    if (this.#workers.size === 0) this.#onEmpty?.()
    if (this.#closed) return
    const { process, failure } = worker
    const sentence = `worker ${process.pid ?? '?'} ${failure === undefined ? how : `cannot start: ${failure}`}`
    if (!this.#isServing) {
      this.#settleReady.reject(new EgressError('WORKERS_LOST', `${sentence} before it served`))
      return
    }
    this.#options.onEvent?.({ type: 'internal_error', data: { message: sentence } })
    const now = performance.now()
    this.#losses = [...this.#losses.filter((at) => now - at < LOSSES_MS), now]
    if (this.#losses.length >= MOST_LOSSES) {
      const often = `${MOST_LOSSES} workers ended within ${LOSSES_MS / 1000} seconds; the last one, ${sentence}`
      this.#loseAll(new EgressError('WORKERS_LOST', often))
      return
    }
    this.#options.onLoss(`${sentence}; another one is started`)
    // With the last one that had it, the socket is gone: a port that the system chose has to be asked for by its number.
    if (this.#bound && [...this.#workers].every(({ isReady }) => !isReady))
      this.#listen = this.#bound
    this.#start()
  }
}

/** What a worker says of itself; undefined if it does not in time. */
function reportOf({ process, reports }: Worker, id: number): Promise<EgressProxyStats | undefined> {
  return new Promise((resolve) => {
    const settle = (stats: EgressProxyStats | undefined) => {
      clearTimeout(timer)
      reports.delete(id)
      resolve(stats)
    }
    const timer = setTimeout(() => settle(undefined), REPORT_MS)
    reports.set(id, settle)
    process.send({ kind: 'report', id })
  })
}

interface OpenPromise<T> {
  readonly promise: Promise<T>
  readonly resolve: (value: T) => void
  readonly reject: (error: Error) => void
}

/** A promise that is settled from outside. Nobody has to wait for it. */
function openPromise<T>(): OpenPromise<T> {
  let resolve: OpenPromise<T>['resolve'] = () => undefined
  let reject: OpenPromise<T>['reject'] = () => undefined
  const promise = new Promise<T>((onValue, onError) => {
    resolve = onValue
    reject = onError
  })
  promise.catch(() => undefined)
  return { promise, resolve, reject }
}
