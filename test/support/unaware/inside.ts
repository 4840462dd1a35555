import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'
import type { Test } from 'tap'
import type { ClientRun } from '../clients/run-client.ts'
import { PROJECT_IMAGE } from '../docker.ts'
import { type Desk, openDesk } from '../sandbox-run.ts'
import { openUserDesk, ordinaryUser } from '../users.ts'
import { CLIENT_IMAGE } from './client-image.ts'

/** The doors of a sealed run. As root the first of them is taken, as an ordinary user the second. */
export const DOORS = ['netns', 'sidecar'] as const
export type SealedDoor = (typeof DOORS)[number]

/** A program that is run inside: its words, and variables for it alone. */
export interface Program {
  readonly words: readonly string[]
  readonly env?: Readonly<Record<string, string>>
}

/** A sealed run that runs one program after the other, none of which has a proxy variable. */
export interface Inside {
  readonly desk: Desk
  /** Runs a program to its end; one that takes longer than a minute is killed, and its code is -1. */
  run(program: Program): Promise<ClientRun>
}

/** What runs inside: takes a program a line, takes the ways to the proxy out of its environment, and tells how it ended. */
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

/** A desk of the caller whom a door is for: root, or an ordinary user. */
export function openDoorDesk(t: Test, door: SealedDoor): Desk {
  return door === 'netns' ? openDesk(t) : openUserDesk(t)
}

/**
 * Starts the run, with everything in the workspace given to the caller.
 *
 * @param policy the text of its policy
 * @param resolve values of `--resolve`
 */
export async function openInside(
  t: Test,
  door: SealedDoor,
  desk: Desk,
  { policy, resolve }: { readonly policy: string; readonly resolve: readonly string[] },
): Promise<Inside> {
  mkdirSync(desk.workspace, { recursive: true })
  writeFileSync(path.join(desk.workspace, 'policy.yaml'), policy)
  const { uid, gid } = door === 'netns' ? { uid: 0, gid: 0 } : ordinaryUser()
  execFileSync('chown', ['-R', `${uid}:${gid}`, desk.workspace])
  const place = ['--image', CLIENT_IMAGE, '--door', door, '--sidecar-image', PROJECT_IMAGE]
  const options = ['--policy', 'policy.yaml', ...resolve.flatMap((one) => ['--resolve', one])]
  const running = desk.start(['run', '-i', ...place, ...options, '--', 'node', '-e', RUNNER])
  const { stdin, stdout } = running.child
  if (!stdin || !stdout) throw new Error('a run without streams')
  t.teardown(async () => {
    stdin.end()
    await running.done
  })
  const lines = createInterface({ input: stdout })[Symbol.asyncIterator]()
  const next = async (): Promise<ClientRun> => {
    const line = await lines.next()
    if (line.done === true) throw new Error(`the run is over: ${(await running.done).stderr}`)
    return JSON.parse(line.value) as ClientRun
  }
  await next()
  return {
    desk,
    async run({ words, env = {} }) {
      stdin.write(`${JSON.stringify({ words, env })}\n`)
      return next()
    },
  }
}
