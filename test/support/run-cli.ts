import { main } from '../../src/cli/main.ts'
import type { SandboxHost } from '../../src/sandbox/host.ts'

interface Result {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** What a command may find beside its arguments. */
interface Surroundings {
  /** The machine that runs are driven on. Default: one that throws as soon as it is touched. */
  readonly host?: SandboxHost
}

/** Runs a command line in this process and answers what it printed. */
export async function runCli(
  argv: readonly string[],
  stdin = '',
  { host }: Surroundings = {},
): Promise<Result> {
  let stdout = ''
  let stderr = ''
  const code = await main(argv, {
    stdout: (text) => (stdout += text),
    stderr: (text) => (stderr += text),
    stdin: (async function* () {
      yield stdin
    })(),
    env: {},
    programName: 'iterion-egress',
    onTerminate: () => undefined,
    onAsked: () => undefined,
    onSignal: () => undefined,
    stdio: 'ignore',
    sandboxHost: () => {
      if (host === undefined) throw new Error('this command has nothing to do with the machine')
      return host
    },
  })
  return { code, stdout, stderr }
}
