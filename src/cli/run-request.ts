import path from 'node:path'
import type { DoorChoice } from '../door/door.ts'
import { EgressError } from '../errors.ts'
import { definesSandbox } from '../sandbox/devcontainer/find-devcontainer.ts'
import { fitsVariable } from '../sandbox/env-file.ts'
import type { SandboxHost } from '../sandbox/host.ts'
import { RunControl } from '../sandbox/run-control.ts'
import {
  engineRepository,
  type RunFlags,
  type RunOptions,
  type RunSource,
} from '../sandbox/run-plan.ts'
import type { HostState, SandboxMode } from '../sandbox/spec.ts'
import type { Io } from './io.ts'
import { packageVersion } from './package-version.ts'
import { shownLines } from './render.ts'

/** What a command line says about a run, whether it runs now or not. */
export interface RunRequestOptions {
  readonly image?: string
  readonly policy?: string
  readonly presetDir: readonly string[]
  readonly sandbox?: SandboxMode
  readonly sandboxDefaultImage?: string
  readonly sandboxHostState?: HostState
  readonly door: DoorChoice
  readonly sidecarImage?: string
  readonly workspace?: string
  readonly resolve: readonly string[]
  readonly env: readonly string[]
  readonly interactive?: boolean
  readonly tty?: boolean
  readonly json?: boolean
}

/** A run as a command line asks for it. */
export interface RunRequest {
  readonly host: SandboxHost
  readonly source: RunSource
  readonly options: RunOptions
}

/**
 * Reads what a command line says about a run.
 *
 * @param file the workflow; undefined if there is a command
 * @param command the words behind `--`; undefined if there is none
 * @throws {EgressError} USAGE, OPTION_INVALID
 */
export async function readRunRequest(
  io: Io,
  file: string | undefined,
  command: readonly string[] | undefined,
  options: RunRequestOptions,
): Promise<RunRequest> {
  assertOneWorkflow(file, command, options)
  const host = io.sandboxHost()
  const absolute = (one: string | undefined) =>
    one === undefined ? null : path.resolve(host.cwd, one)
  const flags: RunFlags = {
    sandbox: options.sandbox ?? null,
    default_image: options.sandboxDefaultImage ?? null,
    host_state: options.sandboxHostState ?? null,
    door: options.door,
    sidecar_image: options.sidecarImage ?? null,
    resolve: [...options.resolve],
    env: options.env.map(nameOf),
  }
  const workspace = path.resolve(host.cwd, options.workspace ?? '.')
  const repository = engineRepository({}, workspace)
  if (repository === null && definesSandbox(workspace)) {
    io.stderr(
      'iterion-egress: warning: the devcontainer.json here is not read: the folder is in no git repository\n',
    )
  }
  const source = {
    file: absolute(file),
    image: options.image ?? null,
    policy: absolute(options.policy),
    command: command ? [...command] : null,
    preset_dirs: options.presetDir.map((dir) => path.resolve(host.cwd, dir)),
    repository,
  }
  return {
    host: await withResolver(host, flags),
    source,
    options: runOptions(io, host, flags, options, workspace),
  }
}

function assertOneWorkflow(
  file: string | undefined,
  command: readonly string[] | undefined,
  { image, policy }: RunRequestOptions,
): void {
  const fail = (message: string) => new EgressError('USAGE', message)
  if (file === undefined && command === undefined) {
    throw fail('name a workflow file, or a command: run --image IMAGE -- COMMAND')
  }
  if (command?.length === 0) throw fail('there is no command behind --')
  if (file === undefined) return
  if (command !== undefined) throw fail('give either a workflow file or a command behind --')
  if (image !== undefined) {
    throw fail(
      `the workflow names its image; --image is for a command, which stands behind --: run --image ${image} -- ${file}`,
    )
  }
  if (policy !== undefined) {
    throw fail('the workflow is the only seat of its policy; write it under sandbox: network:')
  }
}

/** What a run is started with. */
export function runOptions(
  io: Io,
  host: SandboxHost,
  flags: RunFlags,
  options: Pick<RunRequestOptions, 'env' | 'interactive' | 'tty' | 'json'>,
  workspace: string,
): RunOptions {
  const control = new RunControl()
  io.onSignal((signal) => control.receive(signal))
  const say = (line: string) => io.stderr(`iterion-egress: ${shownLines(line)}\n`)
  return {
    flags,
    workspace,
    operatorEnv: readOperatorEnv(options.env, host),
    builtIn: 'auto',
    version: packageVersion(),
    interactive: options.interactive === true,
    tty: options.tty === true,
    stdio: io.stdio,
    say,
    stderr: io.stderr,
    control,
    onRecorded: ({ id }) => {
      if (options.json !== true) say(`run ${id}`)
    },
  }
}

/** A machine whose names are answered as the command line says, first of all. */
export async function withResolver(host: SandboxHost, { resolve }: RunFlags): Promise<SandboxHost> {
  if (resolve.length === 0) return host
  const { parseResolveOptions } = await import('./resolve-option.ts')
  return { ...host, resolver: parseResolveOptions(resolve).toResolver(host.resolver) }
}

/** `--env NAME=VALUE`, or `--env NAME` for the value that the caller's environment has. */
function readOperatorEnv(texts: readonly string[], { env }: SandboxHost): Record<string, string> {
  const named: Record<string, string> = {}
  for (const text of texts) {
    const name = nameOf(text)
    if (!/^[A-Za-z_]\w*$/.test(name)) {
      throw new EgressError('USAGE', `--env ${JSON.stringify(name)}: that is no name of a variable`)
    }
    const value = text === name ? env[name] : text.slice(name.length + 1)
    if (value === undefined) {
      throw new EgressError(
        'USAGE',
        `--env ${name}: the variable is not set; give --env ${name}=VALUE`,
      )
    }
    if (!fitsVariable(name, value)) {
      throw new EgressError(
        'USAGE',
        `--env ${name}: a variable and its name have less than 128 KiB`,
      )
    }
    named[name] = value
  }
  return named
}

/** The name of a variable, as `--env` has it. */
export function nameOf(text: string): string {
  return text.split('=', 1)[0] ?? ''
}
