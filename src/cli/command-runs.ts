import { EgressError, escapeControls } from '../errors.ts'
import type { EventData } from '../events/event.ts'
import { createDockerDriver } from '../sandbox/drivers/docker.ts'
import { findRuntimes } from '../sandbox/drivers/find-runtime.ts'
import type { SandboxHost } from '../sandbox/host.ts'
import { type GitLeftover, reapOrphans } from '../sandbox/orphans.ts'
import { judgeProcess } from '../sandbox/process-identity.ts'
import type { RunRecord } from '../sandbox/run-record.ts'
import { isDriven, listRuns, readEvents, readRun } from '../sandbox/run-archive.ts'
import { EXIT, type ExitCode } from './exit-codes.ts'
import type { Io } from './io.ts'
import { renderJson, shownLines } from './render.ts'

/** How long `runs stop` waits for the run to have ended, in milliseconds. */
const STOP_WAIT_MS = 30_000
const STOP_STEP_MS = 50

/** How much of a command a list shows, in characters. */
const MAX_TITLE = 60

interface JsonOption {
  readonly json?: boolean
}

/** `runs list`: the recorded runs, the latest first. */
export function runRunsList(io: Io, { json }: JsonOption): ExitCode {
  const host = io.sandboxHost()
  const runs = listRuns(host)
  if (json === true) {
    io.stdout(renderJson(runs))
    return EXIT.yes
  }
  if (runs.length === 0) io.stderr('there are no runs yet\n')
  for (const run of runs) {
    const code = run.failure_code === null ? '' : `  ${run.failure_code}`
    io.stdout(
      `${run.id}  ${statusOf(run, host).padEnd(16)}  ${escapeControls(titleOf(run))}${code}\n`,
    )
  }
  return EXIT.yes
}

/** `runs show`: one run, or its events. */
export function runRunsShow(
  io: Io,
  id: string,
  { json, events }: JsonOption & { readonly events?: boolean },
): ExitCode {
  const host = io.sandboxHost()
  const run = readRun(host, id)
  if (events === true) {
    io.stdout(readEvents(host, id))
    return EXIT.yes
  }
  if (json === true) {
    io.stdout(renderJson(run))
    return EXIT.yes
  }
  const { checkpoint } = run
  const place = placeOf(readEvents(host, id))
  const lines: [string, string][] = [
    ['run', run.id],
    ['workflow', run.source.file ?? (run.source.command ?? []).join(' ')],
    ['status', statusOf(run, host)],
    ['failure', run.error ?? '-'],
    ['retry', run.retry_class ?? '-'],
    ['exit code', String(run.exit_code ?? '-')],
    ['started', run.created_at],
    ['changed', run.updated_at],
    ['attempt', String(run.attempt)],
    ['done', checkpoint.done.map(({ node }) => node).join(', ') || '-'],
    ['next', checkpoint.next ?? '-'],
    ['workspace', run.workspace],
    ['image', place?.image ?? '-'],
    ['door', place?.door ?? '-'],
  ]
  io.stdout(lines.map(([name, value]) => `${name.padEnd(10)} ${shownLines(value)}\n`).join(''))
  return EXIT.yes
}

/** A workflow by its name, a command by its words. */
function titleOf({ name, source }: RunRecord): string {
  if (source.command === null) return name
  const words = source.command.join(' ').replaceAll(/[\p{Cc}\s]+/gu, ' ')
  return words.length > MAX_TITLE ? `${words.slice(0, MAX_TITLE - 1)}…` : words
}

/** The sandbox that was started last, as its event tells; undefined if there was none, or its line is cut short. */
function placeOf(events: string): EventData<'sandbox_started'> | undefined {
  const line = events.split('\n').findLast((one) => one.includes('"type":"sandbox_started"'))
  try {
    return (JSON.parse(line ?? '') as { readonly data: EventData<'sandbox_started'> }).data
  } catch {
    return undefined
  }
}

/** `runs stop`: asks the process that drives a run to end it, and waits until it has. */
export async function runRunsStop(io: Io, id: string): Promise<ExitCode> {
  const host = io.sandboxHost()
  const run = readRun(host, id)
  if (run.status !== 'running') {
    throw new EgressError('RUN_NOT_RESUMABLE', `the run ${id} is ${run.status} already`)
  }
  const verdict = judgeProcess(run.owner, host.identity)
  if (verdict !== 'alive') {
    throw new EgressError(
      'RUN_ORPHANED',
      verdict === 'gone'
        ? `the process that drove the run ${id} is gone; reap removes what it left`
        : `the run ${id} is driven from another boot or pid namespace and cannot be stopped from here`,
    )
  }
  host.signal(run.owner.pid, 'SIGTERM')
  for (let waited = 0; waited < STOP_WAIT_MS; waited += STOP_STEP_MS) {
    await new Promise((resolve) => setTimeout(resolve, STOP_STEP_MS))
    if (readRun(host, id).status !== 'running') return EXIT.yes
  }
  io.stderr(`the run ${id} has not ended yet\n`)
  return EXIT.no
}

/** `reap`: removes what runs left behind whose process is gone. */
export async function runReap(io: Io, { json }: JsonOption): Promise<ExitCode> {
  const host = io.sandboxHost()
  const drivers = findRuntimes(host).map((runtime) => createDockerDriver(runtime))
  const reaped = await reapOrphans(host, drivers)
  if (json === true) {
    const { containers, runs, leftBehind, gitMetadata } = reaped
    io.stdout(renderJson({ containers, runs, left_behind: leftBehind, git_metadata: gitMetadata }))
  } else {
    io.stdout(
      `containers removed: ${reaped.containers.length}, runs settled: ${reaped.runs.length}\n`,
    )
    for (const one of reaped.leftBehind) io.stderr(`left behind: ${shownLines(one)}\n`)
  }
  for (const line of gitLines(reaped.gitMetadata)) io.stderr(`${escapeControls(line)}\n`)
  for (const one of reaped.unreachable) io.stderr(`not looked at: ${shownLines(one)}\n`)
  if (drivers.length > 0 && reaped.unreachable.length === drivers.length) return EXIT.hostCannot
  return reaped.leftBehind.length > 0 ? EXIT.no : EXIT.yes
}

/** The status as it is, also where the process that drove the run could not write it. */
function statusOf(run: RunRecord, { identity }: SandboxHost): string {
  return run.status === 'running' && !isDriven(run, identity) ? 'orphaned' : run.status
}

/** What runs left for git, a line each. */
function gitLines(leftovers: readonly GitLeftover[]): string[] {
  return leftovers.flatMap(({ run, moved, failed }) => [
    ...moved.map(({ path, to }) => `run ${run} left ${path} for git; it is now ${to}`),
    ...failed.map(({ path, reason }) => `run ${run} left ${path} for git; look at it: ${reason}`),
  ])
}
