import { Cancelled } from './failure.ts'
import type { NodeProcess } from './node-process.ts'

/** How long a node may take to end after SIGTERM or SIGHUP before it is killed with its container, in milliseconds. */
const TERM_GRACE_MS = 10_000

/** What a signal to this program means to a run. */
export class RunControl {
  readonly #abort = new AbortController()
  #node: NodeProcess | undefined
  #first: NodeJS.Signals | undefined
  #timer: NodeJS.Timeout | undefined

  /** Aborted with {@link Cancelled} when the run has to end now. */
  get signal(): AbortSignal {
    return this.#abort.signal
  }

  /** The first signal that asked the run to end. */
  get cancelledBy(): NodeJS.Signals | undefined {
    return this.#first
  }

  /**
   * Takes a signal. The first goes to the node that runs, which may end in its own way; without one, or at the second,
   * the run ends now.
   */
  receive(signal: NodeJS.Signals): void {
    if (signal === 'SIGWINCH') {
      this.#node?.resize()
      return
    }
    const isSecond = this.#first !== undefined
    this.#first ??= signal
    if (this.#node === undefined || isSecond) {
      clearTimeout(this.#timer)
      this.#abort.abort(new Cancelled(signal))
      return
    }
    this.#node.signal(signal)
    if (signal !== 'SIGINT') {
      this.#timer = setTimeout(() => this.#abort.abort(new Cancelled(signal)), TERM_GRACE_MS)
    }
  }

  /**
   * Says which node runs; undefined: none, and how the last one ended.
   *
   * @throws {Cancelled} if the run was asked to end meanwhile
   */
  enter(node: NodeProcess | undefined, code?: number): void {
    this.#node = node
    if (node !== undefined) return
    clearTimeout(this.#timer)
    if (this.#first !== undefined) throw new Cancelled(this.#first, code)
  }
}
