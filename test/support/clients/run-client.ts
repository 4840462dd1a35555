import { spawn } from 'node:child_process'

/** What a client did: its exit code and what it printed. */
export interface ClientRun {
  /** The exit code; -1 if it was ended because it took too long. */
  readonly code: number
  readonly stdout: string
  readonly stderr: string
  /** Both streams, in the order in which they came. */
  readonly output: string
}

/** Environment variables; one that is undefined is not there. */
export type Variables = Readonly<Record<string, string | undefined>>

export interface RunOptions {
  readonly env: Variables
  readonly cwd: string
  readonly timeoutMs?: number
}

const RUN_TIMEOUT_MS = 60_000

/** Runs a client to its end. One that hangs is ended, together with the processes that it started. */
export function runClient(
  program: string,
  args: readonly string[],
  { env, cwd, timeoutMs = RUN_TIMEOUT_MS }: RunOptions,
): Promise<ClientRun> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      env,
      cwd,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let hung = false
    let stdout = ''
    let stderr = ''
    let output = ''
    const timer = setTimeout(() => {
      hung = true
      endGroup(child.pid)
    }, timeoutMs)
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text
      output += text
    })
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text
      output += text
    })
    child.once('error', (error) => {
      clearTimeout(timer)
      reject(error)
    })
    child.once('close', (code) => {
      clearTimeout(timer)
      resolve({ code: hung ? -1 : (code ?? -1), stdout, stderr, output })
    })
  })
}

/** The child leads a process group of its own, so this reaches what it started and nothing else. */
function endGroup(pid: number | undefined): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // It has ended in the meantime.
  }
}
