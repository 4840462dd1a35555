import path from 'node:path'
import { EgressError } from '../errors.ts'
import type { DoorChoice } from '../door/door.ts'
import type { RunResult } from '../sandbox/drive-run.ts'
import { OWN_FAILURE } from '../sandbox/drive-run.ts'
import { definesSandbox, repositoryOf } from '../sandbox/devcontainer/find-devcontainer.ts'
import type { SandboxHost } from '../sandbox/host.ts'
import { RunControl } from '../sandbox/run-control.ts'
import type { RunFlags, RunOptions } from '../sandbox/run-plan.ts'
import { resumeRun, runWorkflow } from '../sandbox/run-workflow.ts'
import { checkScheduleRecord, writeScheduleRecord } from '../sandbox/schedule-record.ts'
import type { HostState, SandboxMode } from '../sandbox/spec.ts'
import type { Io } from './io.ts'
import { packageVersion } from './package-version.ts'
import { renderError, renderJson, renderJsonError, toEgressError } from './render.ts'
import { parseResolveOptions } from './resolve-option.ts'

/** Options that `run` and `resume` share. */
interface CommonOptions {
  readonly env: readonly string[]
  readonly interactive?: boolean
  readonly tty?: boolean
  readonly scheduleRecord?: string
  readonly json?: boolean
}

interface RunCommandOptions extends CommonOptions {
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
}

interface ResumeCommandOptions extends CommonOptions {
  readonly acceptChanges?: boolean
}

/**
 * `run`: runs a workflow, or the one command behind `--`.
 *
 * @param command the words behind `--`; undefined if there is none
 */
export function runRun(
  io: Io,
  file: string | undefined,
  command: readonly string[] | undefined,
  options: RunCommandOptions,
): Promise<number> {
  return answering(io, options, async () => {
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
    const repository = repositoryOf(workspace)
    if (repository === undefined && definesSandbox(workspace)) {
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
      repository: repository ?? null,
    }
    return runWorkflow(
      withResolver(host, flags),
      source,
      runOptions(io, host, flags, options, workspace),
    )
  })
}

/** `resume`: goes on with a run from its checkpoint. */
export function runResume(io: Io, id: string, options: ResumeCommandOptions): Promise<number> {
  return answering(io, options, async () => {
    const host = io.sandboxHost()
    const { readRun } = await import('../sandbox/run-archive.ts')
    const { flags, workspace } = readRun(host, id)
    const given = options.env.map(nameOf)
    const missing = flags.env.filter((name) => !given.includes(name))
    if (missing.length > 0) {
      throw new EgressError(
        'USAGE',
        `the run was started with ${missing.map((name) => `--env ${name}`).join(' ')}; values are not recorded, so give them again`,
      )
    }
    const next = { ...flags, env: given }
    return resumeRun(withResolver(host, flags), id, {
      ...runOptions(io, host, next, options, workspace),
      acceptChanges: options.acceptChanges === true,
    })
  })
}

async function answering(
  io: Io,
  { json, scheduleRecord }: CommonOptions,
  work: () => Promise<RunResult>,
): Promise<number> {
  try {
    // A file that cannot take the outcome is known before anything starts.
    if (scheduleRecord !== undefined) checkScheduleRecord(scheduleRecord)
    const result = await work()
    const { failure, record, leftBehind } = result
    if (scheduleRecord !== undefined) writeScheduleRecord(scheduleRecord, record)
    if (leftBehind.length > 0) {
      io.stderr(`iterion-egress: left behind: ${leftBehind.join(', ')}; reap removes it\n`)
    }
    if (json === true) io.stderr(renderJson(record))
    else if (failure instanceof EgressError && failure.problems.length > 0)
      io.stderr(renderError(failure))
    else if (failure !== undefined) io.stderr(`iterion-egress: ${record.error}\n`)
    return result.exitCode
  } catch (error) {
    const failure = toEgressError(error)
    if (json === true) io.stderr(renderJsonError(failure))
    else io.stderr(renderError(failure))
    return OWN_FAILURE
  }
}

function assertOneWorkflow(
  file: string | undefined,
  command: readonly string[] | undefined,
  { image, policy }: RunCommandOptions,
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

function runOptions(
  io: Io,
  host: SandboxHost,
  flags: RunFlags,
  options: CommonOptions,
  workspace: string,
): RunOptions {
  const control = new RunControl()
  io.onSignal((signal) => control.receive(signal))
  const say = (line: string) => io.stderr(`iterion-egress: ${line}\n`)
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

function withResolver(host: SandboxHost, { resolve }: RunFlags): SandboxHost {
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
    named[name] = value
  }
  return named
}

function nameOf(text: string): string {
  return text.split('=', 1)[0] ?? ''
}
