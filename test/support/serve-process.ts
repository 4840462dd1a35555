import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Test } from 'tap'
import { pause } from './proxy.ts'
import { openRaw, type RawClient } from './raw-client.ts'

export const BIN = new URL('../../bin/iterion-egress.js', import.meta.url).pathname
const DEADLINE_MS = 20_000

/** A `serve` of its own, started as users start it. */
export interface Served {
  readonly child: ChildProcess
  readonly readyFile: string
  readonly ready: { listen: string; proxy_url: string }
  readonly port: number
  output(): { stdout: string; stderr: string }
  /** Sends a signal and waits for the exit code; null if a signal ended it. */
  end(signal?: NodeJS.Signals): Promise<number | null>
  /** Waits for the exit code. */
  ended(): Promise<number | null>
  /** The processes that it has started, the oldest first. */
  workers(): number[]
  /** What SIGUSR2 makes it say. */
  stats(): Promise<Record<string, unknown>>
  client(send?: string): Promise<RawClient>
  /** A client whose connection a certain worker has: no other one runs until that is so. */
  clientOf(worker: number): Promise<RawClient>
}

/** Waits until something is there. */
export async function waitFor<T>(look: () => T | undefined, stepMs = 20): Promise<T> {
  const start = Date.now()
  for (;;) {
    const found = look()
    if (found !== undefined) return found
    if (Date.now() - start > DEADLINE_MS) throw new Error('it did not come')
    await pause(stepMs)
  }
}

interface ServeOptions {
  readonly env?: NodeJS.ProcessEnv
  /** Default: 127.0.0.1:0. */
  readonly listen?: string
}

/**
 * Starts `serve` on a port of the system's choice, in a process group of its own, and waits until it is ready. Whatever is
 * left of it when the test is over is killed.
 */
export async function serve(
  t: Test,
  args: readonly string[],
  { env = {}, listen = '127.0.0.1:0' }: ServeOptions = {},
): Promise<Served> {
  const readyFile = path.join(mkdtempSync(path.join(tmpdir(), 'serve-')), 'ready.json')
  const child = spawn(
    process.execPath,
    [BIN, 'serve', '--listen', listen, '--ready-file', readyFile, ...args],
    {
      env: { PATH: process.env['PATH'], ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    },
  )
  t.teardown(() => {
    killGroup(child)
    rmSync(path.dirname(readyFile), { recursive: true, force: true })
  })
  let stdout = ''
  let stderr = ''
  child.stdout.on('data', (chunk) => (stdout += chunk))
  child.stderr.on('data', (chunk) => (stderr += chunk))
  const exit = once(child, 'exit')
  await waitFor(() => {
    if (child.exitCode !== null) throw new Error(stderr)
    return existsSync(readyFile) || undefined
  })
  const ready = JSON.parse(readFileSync(readyFile, 'utf8'))
  const port = Number(ready.listen.split(':').at(-1))
  const ended = async () => (await exit)[0] as number | null
  const workers = () => childrenOf(child.pid ?? 0)
  const client = (send?: string) => openRaw(t, port, send === undefined ? {} : { send })
  return {
    child,
    readyFile,
    ready,
    port,
    output: () => ({ stdout, stderr }),
    end(signal = 'SIGTERM') {
      child.kill(signal)
      return ended()
    },
    ended,
    workers,
    async stats() {
      const before = stderr.length
      child.kill('SIGUSR2')
      const line = await waitFor(() => /^\{.*\}$/m.exec(stderr.slice(before))?.[0])
      return JSON.parse(line) as Record<string, unknown>
    },
    client,
    async clientOf(worker) {
      const others = workers().filter((pid) => pid !== worker)
      for (const pid of others) process.kill(pid, 'SIGSTOP')
      try {
        await waitFor(() => others.every((pid) => statOf(pid)?.state === 'T') || undefined, 1)
        const one = await client()
        await waitFor(() => acceptQueueOf(port) === 0 || undefined, 1)
        return one
      } finally {
        for (const pid of others) process.kill(pid, 'SIGCONT')
      }
    },
  }
}

/** The records in an event file. */
export function eventsIn(file: string): {
  readonly seq: number
  readonly type: string
  readonly data: Record<string, unknown>
}[] {
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line))
}

/** True while a process runs; one that nobody has waited for yet has ended. */
export function isRunning(pid: number): boolean {
  const stat = statOf(pid)
  return stat !== undefined && stat.state !== 'Z'
}

/** Connections that wait on a port until somebody accepts them. */
function acceptQueueOf(port: number): number {
  const listening = '0A'
  const end = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  for (const line of readFileSync('/proc/net/tcp', 'utf8').split('\n')) {
    const [, local = '', , state, queues = ''] = line.trim().split(/\s+/)
    if (state === listening && local.endsWith(end)) return parseInt(queues.split(':')[1] ?? '', 16)
  }
  throw new Error(`nobody listens on ${port}`)
}

function childrenOf(parent: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => statOf(pid)?.parent === parent && isRunning(pid))
    .toSorted((a, b) => a - b)
}

function statOf(pid: number): { state: string; parent: number } | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // Behind the name, which may hold anything.
    const [state = '', parent] = text.slice(text.lastIndexOf(')') + 2).split(' ')
    return { state, parent: Number(parent) }
  } catch {
    return undefined
  }
}

function killGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL')
  } catch {
    // All of it has ended.
  }
}
