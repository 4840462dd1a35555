import type { ChildProcess } from 'node:child_process'
import { createInterface } from 'node:readline'
import type { Test } from 'tap'
import type { ClientRun } from '../clients/run-client.ts'

/** A program that is run inside: its words, and variables for it alone. */
export interface Program {
  readonly words: readonly string[]
  readonly env?: Readonly<Record<string, string>>
}

/** Runs one program after the other inside a seal, none of which has a proxy variable. */
export interface ProgramRunner {
  /** Runs a program to its end; one that takes longer than a minute is killed, and its code is -1. */
  run(program: Program): Promise<ClientRun>
}

/** Takes a program a line, takes the ways to the proxy out of its environment, and tells how it ended. */
const RUNNER = `
const { spawn } = require('node:child_process')
for (const name of Object.keys(process.env)) {
  if (/^(?:(?:https?|ftp|all|no)_proxy|node_use_env_proxy)$/i.test(name)) delete process.env[name]
}
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { words: [program, ...args], env } = JSON.parse(line)
  const options = { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'], timeout: 60_000, killSignal: 9 }
  const ran = { code: -1, stdout: '', stderr: '', output: '' }
  const child = spawn(program, args, options)
  for (const name of ['stdout', 'stderr']) {
    child[name].setEncoding('utf8').on('data', (text) => { ran[name] += text; ran.output += text })
  }
  child.on('error', (error) => { ran.output += error.message })
  child.on('close', (code) => {
    ran.code = code ?? -1
    process.stdout.write(JSON.stringify(ran) + '\\n')
  })
})
process.stdout.write('{}\\n')
`

/** The command that is to be started inside, with its input and output as pipes. */
export const RUNNER_WORDS = ['node', '-e', RUNNER] as const

/** What was started with {@link RUNNER_WORDS}. */
interface Running {
  readonly child: ChildProcess
  readonly done: Promise<{ readonly stderr: string }>
}

/** Gives it programs to run. It ends with the test, or when its input is closed. */
export async function followRunner(t: Test, { child, done }: Running): Promise<ProgramRunner> {
  const { stdin, stdout } = child
  if (!stdin || !stdout) throw new Error('a run without streams')
  stdin.on('error', () => undefined)
  t.teardown(async () => {
    stdin.end()
    await done
  })
  const lines = createInterface({ input: stdout })[Symbol.asyncIterator]()
  const next = async (): Promise<ClientRun> => {
    const line = await lines.next()
    if (line.done === true) throw new Error(`the run is over: ${(await done).stderr}`)
    return JSON.parse(line.value) as ClientRun
  }
  await next()
  return {
    async run({ words, env = {} }) {
      stdin.write(`${JSON.stringify({ words, env })}\n`)
      return next()
    },
  }
}
