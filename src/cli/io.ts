import type { StdioOptions } from 'node:child_process'
import type { SandboxHost } from '../sandbox/host.ts'

/** What a command may touch of the process it runs in. */
export interface Io {
  readonly stdout: (text: string) => void
  readonly stderr: (text: string) => void
  readonly stdin: AsyncIterable<Buffer | string>
  readonly env: Readonly<Partial<Record<string, string>>>
  /** How the program was called, for commands that people are told to type. */
  readonly programName: string
  /** Calls the listener when the process is asked to end. */
  readonly onTerminate: (listener: () => void) => void
  /** Calls the listener when the process is asked how it stands: SIGUSR2. */
  readonly onAsked: (listener: () => unknown) => void
  /** Calls the listener for every signal that a run passes on. */
  readonly onSignal: (listener: (signal: NodeJS.Signals) => void) => void
  /** What the commands of a run read and print to. */
  readonly stdio: StdioOptions
  /** The machine that runs are driven on. */
  readonly sandboxHost: () => SandboxHost
}

/** Everything on standard input, as UTF-8. */
export async function readAll(stdin: Io['stdin']): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of stdin) chunks.push(Buffer.from(chunk))
  return Buffer.concat(chunks).toString('utf8')
}
