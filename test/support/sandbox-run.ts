import { type ChildProcess, spawn } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
} from 'node:fs'
import { readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Test } from 'tap'
import type { EventData, EventType } from '../../src/events/event.ts'
import type { RunRecord } from '../../src/sandbox/run-record.ts'
import { TEST_IMAGE } from './docker.ts'

export const ROOT = path.resolve(import.meta.dirname, '../..')
const PROGRAM = path.join(ROOT, 'bin/iterion-egress.js')

/** A line of an event log. */
export interface EventRecord<T extends EventType = EventType> {
  readonly v: 1
  readonly seq: number
  readonly ts: string
  readonly run_id: string | null
  readonly type: T
  readonly data: EventData<T>
}

/** How a command line ended. */
export interface CommandResult {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** A command line that runs. */
export interface RunningCommand {
  readonly child: ChildProcess
  readonly done: Promise<CommandResult>
  /** Resolves when standard output holds a text. */
  hears(text: string): Promise<void>
}

/** Who calls the program: numbers, and the groups beside the first. */
export interface Caller {
  readonly uid: number
  readonly gid: number
}

/** A home, a run store and a workspace of a test's own. */
export interface Desk {
  readonly folder: string
  readonly home: string
  readonly iterionHome: string
  readonly workspace: string
  readonly tempRoot: string
  /** Starts the program with these arguments. */
  start(args: readonly string[], options?: CommandOptions): RunningCommand
  /** The same, to its end. */
  run(args: readonly string[], options?: CommandOptions): Promise<CommandResult>
  /** `run --image TEST_IMAGE … -- command`, to its end. */
  runCommand(options: readonly string[], command: readonly string[]): Promise<CommandResult>
  /** The latest record. */
  record(): RunRecord
  records(): RunRecord[]
  /** The events of the latest run, or of one type of them. */
  events(): EventRecord[]
  eventsOf<T extends EventType>(type: T): EventData<T>[]
  /** What is left in the folder for short-lived files. */
  leftovers(): string[]
}

interface CommandOptions {
  readonly env?: Readonly<Record<string, string>>
  readonly input?: string
  readonly cwd?: string
  /** The program to run; default: that of this work tree. */
  readonly program?: string
}

/** Makes a desk. Everything of it is removed when the test ends. */
export function openDesk(t: Test, caller?: Caller): Desk {
  const folder = mkdtempSync(path.join(tmpdir(), 'desk-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }))
  const [home, workspace, tempRoot] = ['home', 'workspace', 'tmp'].map((name) => {
    const one = path.join(folder, name)
    mkdirSync(one, { mode: 0o700 })
    if (caller) chownSync(one, caller.uid, caller.gid)
    return one
  }) as [string, string, string]
  chmodSync(folder, 0o755)
  const iterionHome = path.join(home, '.iterion')

  const start: Desk['start'] = (args, options = {}) => {
    const { env = {}, input, cwd = workspace, program = PROGRAM } = options
    // The test runner's own hooks in a child may stand still at its end, and cost time.
    const words = ['/usr/bin/env', '-u', 'NODE_OPTIONS', process.execPath, program, ...args]
    const drop = caller
      ? ['setpriv', `--reuid=${caller.uid}`, `--regid=${caller.gid}`, '--init-groups']
      : []
    const [first = '', ...rest] = [...drop, ...words]
    const child = spawn(first, rest, {
      cwd,
      stdio: ['pipe', 'pipe', 'pipe'],
      env: {
        PATH: process.env['PATH'],
        HOME: home,
        TMPDIR: tempRoot,
        ITERION_HOME: iterionHome,
        ...env,
      },
    })
    child.stdin.on('error', () => undefined)
    if (input !== undefined) child.stdin.end(input)
    let stdout = ''
    let stderr = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text))
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
    const done = new Promise<CommandResult>((resolve) => {
      child.on('close', (code) => resolve({ code, stdout, stderr }))
    })
    return {
      child,
      done,
      hears: (text) =>
        new Promise((resolve, reject) => {
          const look = () => {
            if (stdout.includes(text)) resolve()
          }
          child.stdout.on('data', look)
          void done.then(() => reject(new Error(`never heard ${text}: ${stdout}${stderr}`)))
          look()
        }),
    }
  }
  const run: Desk['run'] = (args, options) => start(args, { input: '', ...options }).done
  const runsFolder = path.join(iterionHome, 'runs')
  const records = () =>
    (existsSync(runsFolder) ? readdirSync(runsFolder) : [])
      .filter((id) => !id.startsWith('.'))
      .map((id) => path.join(runsFolder, id, 'run.json'))
      .map((file) => (existsSync(file) ? readFileSync(file, 'utf8') : ''))
      // One that was killed as it began has a folder, and nothing in it that could be read.
      .filter((text) => text !== '')
      .map((text) => JSON.parse(text) as RunRecord)
      .toSorted((a, b) => a.created_at.localeCompare(b.created_at))
  const record = () => {
    const last = records().at(-1)
    if (last === undefined) throw new Error('there is no run')
    return last
  }
  const events = () =>
    readFileSync(path.join(runsFolder, record().id, 'events.jsonl'), 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as EventRecord)
  return {
    folder,
    home,
    iterionHome,
    workspace,
    tempRoot,
    start,
    run,
    runCommand: (options, command) =>
      run(['run', '--image', TEST_IMAGE, ...options, '--', ...command]),
    records,
    record,
    events,
    eventsOf: <T extends EventType>(type: T) =>
      events().flatMap((one) => (one.type === type ? [one.data as EventData<T>] : [])),
    leftovers: () => readdirSync(tempRoot),
  }
}
