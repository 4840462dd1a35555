import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, chownSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Test } from 'tap'
import { asOrdinaryUser, copyProgram, ordinaryUser } from './users.ts'

/** Why commands cannot be sealed here by root and by an ordinary user; false if they can. In CI a skip is a failure. */
export const NO_WRAP: string | false =
  process.getuid?.() !== 0
    ? 'only root can become another user'
    : ['ip', 'setpriv', 'unshare'].some((name) => spawnSync(name, ['--help']).error)
      ? 'iproute2 or util-linux is missing'
      : false

/** Who calls `wrap`. */
export type WrapCaller = 'root' | 'user'

/** How a command line of `wrap` ended. */
export interface Wrapped {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** A `wrap` that runs. */
export interface RunningWrap {
  readonly child: ChildProcess
  readonly done: Promise<Wrapped>
  /** What it has printed so far. */
  stdout(): string
}

export interface WrapStart {
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
  /** A program that is not there for all that follows. */
  readonly hidden?: string
  /** What standard input is; nothing by default. */
  readonly stdin?: 'pipe'
}

/** A place to run `wrap` from. */
export interface WrapDesk {
  /** A folder that both callers may read and the ordinary user may write. */
  readonly folder: string
  /** The program that is run. */
  readonly program: string
  /** Starts `wrap` as a caller, with what stands between `wrap` and `--`, and the command. */
  start(
    caller: WrapCaller,
    options: readonly string[],
    command: readonly string[],
    more?: WrapStart,
  ): RunningWrap
  /** The same to its end. */
  run(
    caller: WrapCaller,
    options: readonly string[],
    command: readonly string[],
    more?: WrapStart,
  ): Promise<Wrapped>
}

const HIDE = 'mount --bind /dev/null "$0" && exec "$@"'

/** Opens a desk. The outside world is what a test gives by `--resolve`. */
export function openWrapDesk(t: Test): WrapDesk {
  const program = copyProgram(t)
  const folder = mkdtempSync(path.join(tmpdir(), 'wrap-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const { uid, gid } = ordinaryUser()
  chownSync(folder, uid, gid)
  chmodSync(folder, 0o755)
  const start: WrapDesk['start'] = (caller, options, command, more = {}) => {
    const { env = {}, cwd = folder, stdin = 'ignore', hidden } = more
    const PATH = env['PATH'] ?? '/usr/local/bin:/usr/bin:/bin'
    const [first, ...rest] = [
      '/usr/bin/env',
      ...(hidden === undefined ? [] : ['unshare', '--mount', 'sh', '-c', HIDE, hidden]),
      ...(caller === 'root' ? [] : asOrdinaryUser()),
      // What is said to this test about its own processes is not for the program.
      '/usr/bin/env',
      '-u',
      'NODE_OPTIONS',
      `PATH=${PATH}`,
      process.execPath,
      program,
      'wrap',
      ...options,
      '--',
      ...command,
    ] as const
    const home = caller === 'root' ? '/root' : folder
    const child = spawn(first, rest, {
      cwd,
      env: { HOME: home, ...env, PATH: process.env['PATH'] },
      stdio: [stdin, 'pipe', 'pipe'],
    })
    t.teardown(() => child.kill('SIGKILL'))
    let stdout = ''
    let stderr = ''
    child.stdout?.on('data', (text: Buffer) => (stdout += text.toString()))
    child.stderr?.on('data', (text: Buffer) => (stderr += text.toString()))
    const done = once(child, 'close').then(([code]): Wrapped => ({
      code: code as number | null,
      stdout,
      stderr,
    }))
    return { child, done, stdout: () => stdout }
  }
  return { folder, program, start, run: (...args) => start(...args).done }
}

/** The words that let a command reach a server of the test by a name. */
export function outsideWords(name: string, port: number): readonly string[] {
  return ['--rule', name, '--resolve', `${name}:127.0.0.1:${port}`]
}

/** A whole command line that starts `wrap` as the ordinary user. */
export function wrapWords(
  { program }: WrapDesk,
  options: readonly string[],
  command: readonly string[],
): readonly [string, ...string[]] {
  const node = ['env', '-u', 'NODE_OPTIONS', process.execPath]
  return [...asOrdinaryUser(), ...node, program, 'wrap', ...options, '--', ...command]
}
