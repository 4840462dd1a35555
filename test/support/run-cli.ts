import { main } from '../../src/cli/main.ts'

interface Result {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** Runs a command line in this process and answers what it printed. */
export async function runCli(argv: readonly string[], stdin = ''): Promise<Result> {
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
  })
  return { code, stdout, stderr }
}
