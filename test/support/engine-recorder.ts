import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, readFileSync, writeFileSync, existsSync } from 'node:fs'
import path from 'node:path'
import type { PlanDocument } from '../../src/cli/plan-document.ts'
import { RUN_LABEL } from '../../src/sandbox/labels.ts'
import type { Desk } from './sandbox-run.ts'

/** One call of the engine's command line. */
export interface EngineCall {
  readonly args: readonly string[]
  /** The text of its `--env-file`; undefined if it has none. */
  readonly envFile: string | undefined
}

/** An engine's command line that writes down how it is called, and then is the real one. */
export interface EngineRecorder {
  readonly program: string
  /** The folder to put in front of PATH. */
  readonly folder: string
  /** What was called since it was asked last. */
  take(): EngineCall[]
}

/** Puts one in front of the real docker. */
export function recordEngine(desk: Desk): EngineRecorder {
  const real = execFileSync('sh', ['-c', 'command -v docker'], { encoding: 'utf8' }).trim()
  const folder = path.join(desk.folder, 'recorder')
  const log = path.join(folder, 'log')
  const program = path.join(folder, 'docker')
  mkdirSync(folder, { recursive: true })
  // A line a call: what is not a letter of base64 is none of an argument.
  writeFileSync(
    program,
    `#!/bin/sh
line= env=
for word; do
  line="$line $(printf '%s' "$word" | base64 -w0)"
  case $word in --env-file=*) env=$(base64 -w0 < "\${word#--env-file=}"); esac
done
echo "$line;$env" >> ${log}
exec ${real} "$@"
`,
  )
  chmodSync(program, 0o755)
  const decode = (text: string) => Buffer.from(text, 'base64').toString('utf8')
  return {
    program,
    folder,
    take() {
      const text = existsSync(log) ? readFileSync(log, 'utf8') : ''
      writeFileSync(log, '')
      return text
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => {
          const [words = '', env = ''] = line.split(';')
          const args = words.split(' ').slice(1).map(decode)
          const hasFile = args.some((arg) => arg.startsWith('--env-file='))
          return { args, envFile: hasFile ? decode(env) : undefined }
        })
    },
  }
}

/** The call that made a container, with the placeholders of a forecast for what only a run has. */
export function containerCall(calls: readonly EngineCall[], runId: string): readonly string[] {
  const name = `--name=iterion-${runId}`
  const args = calls.find((call) => call.args[0] === 'run' && call.args.includes(name))?.args ?? []
  const scratch = path.dirname(
    args.find((arg) => arg.startsWith('--cidfile='))?.replace('--cidfile=', '') ?? '',
  )
  const prefix = RUN_LABEL.replace(/run$/, '').replaceAll('.', '\\.')
  const owner = new RegExp(`(${prefix}(?:boot|pid-namespace|pid|start))=[^,]*`, 'g')
  return args.map((arg) =>
    arg.replaceAll(scratch, '<scratch>').replaceAll(runId, '<run>').replaceAll(owner, '$1=<owner>'),
  )
}

/** How nodes were started: who, where, with which variables, and the words. */
export function nodeCalls(calls: readonly EngineCall[]) {
  return calls
    .filter(({ args }) => args[0] === 'exec' && args.includes('iterion-node'))
    .map(({ args, envFile = '' }) => ({
      user: args.find((arg) => arg.startsWith('--user='))?.slice('--user='.length),
      workdir: args.find((arg) => arg.startsWith('--workdir='))?.slice('--workdir='.length),
      // Behind the wrapper: its name, the number of the node, whether there is a file of variables.
      words: args.slice(args.indexOf('iterion-node') + 3),
      env: envFile.split('\n').filter((line) => line !== ''),
    }))
}

/** The same of a forecast. A hidden value is `undefined`. */
export function plannedNodes({ sandbox, nodes }: PlanDocument) {
  return nodes.map(({ command }) => ({
    user: sandbox?.user,
    workdir: sandbox?.workdir,
    words: command,
    env: (sandbox?.environment ?? [])
      .filter(({ from }) => from !== 'image')
      .map(({ name, value, hidden }) => ({ name, value: hidden ? undefined : value })),
  }))
}
