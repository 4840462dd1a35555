import { type ChildProcess, spawn, type SpawnOptions } from 'node:child_process'
import { EgressError } from '../errors.ts'

/** Starts a program. The one seam through which this project starts any: tests watch it, and nothing else does. */
export type Spawner = (
  program: string,
  args: readonly string[],
  options: SpawnOptions,
) => ChildProcess

/** Starts programs of this machine, never through a shell. */
export const systemSpawner: Spawner = (program, args, options) =>
  spawn(program, args, { ...options, shell: false })

/** How a program is run to its end. */
export interface RunOptions {
  /** The whole environment of the program. */
  readonly env: Readonly<Partial<Record<string, string>>>
  /** What it reads; default: nothing. */
  readonly input?: string | Buffer
  /** Ends it: SIGTERM to its group, SIGKILL two seconds later. */
  readonly signal?: AbortSignal
  /** The same after so many milliseconds. Default: no bound. */
  readonly timeoutMs?: number
}

/** What a program that has ended left behind. */
export interface RunResult {
  /** Its exit code; undefined if a signal ended it or it never started. */
  readonly code: number | undefined
  readonly stdout: string
  /** What it complained about, the last 64 KiB of it. */
  readonly stderr: string
  /** True if it was ended because of `signal` or `timeoutMs`. */
  readonly stopped: boolean
}

/** How long a program that was asked to end may take, in milliseconds. */
const GRACE_MS = 2_000
/** What is kept of an output, in bytes. */
const MAX_OUTPUT = 1024 * 1024
const MAX_STDERR = 64 * 1024

/**
 * Runs a program to its end, in a process group of its own, so that what it started ends with it.
 *
 * @throws {EgressError} PROGRAM_MISSING if it cannot be started
 */
export function runProgram(
  spawner: Spawner,
  program: string,
  args: readonly string[],
  options: RunOptions,
): Promise<RunResult> {
  return new Promise((resolve, reject) => {
    const child = spawner(program, args, {
      env: options.env,
      stdio: [options.input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
      detached: true,
    })
    let stopped = false
    let killTimer: NodeJS.Timeout | undefined
    const stop = () => {
      if (stopped) return
      stopped = true
      signalGroup(child, 'SIGTERM')
      killTimer = setTimeout(() => signalGroup(child, 'SIGKILL'), GRACE_MS)
    }
    const timeout =
      options.timeoutMs === undefined ? undefined : setTimeout(stop, options.timeoutMs)
    options.signal?.addEventListener('abort', stop, { once: true })
    if (options.signal?.aborted) stop()
    const output = collectTail(child.stdout, MAX_OUTPUT)
    const complaints = collectTail(child.stderr, MAX_STDERR)
    const finish = () => {
      clearTimeout(timeout)
      clearTimeout(killTimer)
      options.signal?.removeEventListener('abort', stop)
    }
    child.stdin?.on('error', () => undefined)
    child.stdin?.end(options.input)
    child.on('error', (error) => {
      finish()
      reject(
        new EgressError('PROGRAM_MISSING', `${program} cannot be started: ${error.message}`, {
          cause: error,
        }),
      )
    })
    child.on('close', (code) => {
      finish()
      // What it started and left behind ends with it.
      if (stopped) signalGroup(child, 'SIGKILL')
      resolve({ code: code ?? undefined, stdout: output(), stderr: complaints(), stopped })
    })
  })
}

/** Sends a signal to a process and all that it started. */
export function signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid === undefined) return
  try {
    process.kill(-child.pid, signal)
  } catch {
    // It is gone, or was never the first of a group.
    child.kill(signal)
  }
}

function collectTail(stream: NodeJS.ReadableStream | null, limit: number): () => string {
  let kept: Buffer[] = []
  let size = 0
  stream?.on('data', (chunk: Buffer) => {
    kept.push(chunk)
    size += chunk.length
    if (size <= 2 * limit) return
    kept = [Buffer.concat(kept).subarray(-limit)]
    size = limit
  })
  return () => Buffer.concat(kept).subarray(-limit).toString('utf8')
}
