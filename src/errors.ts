/**
 * Every code this project fails with, and what it means. The one list: `docs/errors.md` is held to it by a test.
 * A code is never reused once released.
 */
export const ERROR_MEANINGS = {
  USAGE: 'the command line cannot be understood',
  OPTION_INVALID: 'an option given to the library or a command has a value that cannot be used',
  FILE_UNREADABLE: 'a file cannot be read: missing, not a regular file, too large, or not UTF-8',
  POLICY_SYNTAX: 'a file is not the YAML that policies are written in',
  POLICY_SHAPE: 'a key is unknown, missing, repeated, or has a value of the wrong kind',
  POLICY_PATTERN: 'a pattern is refused; the message has the corrected form where there is one',
  POLICY_RULE: 'a rule is well formed and yet could not do what it says',
  PRESET_UNKNOWN: 'a preset is named that does not exist',
  PRESET_CYCLE: 'presets extend each other in a ring',
  RESOLVE_FAILED: 'a name has no address',
  RESOLVE_TIMEOUT: 'the resolver did not answer in time',
  LISTEN_FAILED: 'the proxy cannot listen where it was told to',
  WORKERS_LOST: 'the processes of serve --workers cannot be kept running',
  EVENTS_FAILED: 'the event log cannot be opened',
  WORKFLOW_SHAPE: 'a workflow has a key that is unknown, missing or of the wrong kind',
  DEVCONTAINER_INVALID: 'a devcontainer.json is no JSON, or has a value of the wrong kind',
  PROGRAM_MISSING: 'a program that is needed cannot be started',
  RUN_UNKNOWN: 'there is no run of that id',
  RUN_STORE_FAILED: 'the record of a run cannot be read or written',
  RUN_NOT_RESUMABLE: 'a run cannot go on: it is running, finished, or was refused',
  SANDBOX_DRIVER_UNAVAILABLE:
    'no container runtime is installed, and the run cannot or must not go on without one',
  SANDBOX_ENGINE_UNREACHABLE: 'the container engine does not answer, or runs on another machine',
  SANDBOX_IMAGE_UNAVAILABLE: 'the image of the sandbox is neither here nor can it be pulled',
  SANDBOX_SETUP_FAILED: 'the sandbox could not be set up',
  SANDBOX_SETUP_TIMEOUT: 'a phase of the set-up took longer than its bound',
  SANDBOX_DOOR_FAILED: 'no door could be placed or proven, so nothing was started',
  SANDBOX_SPEC_UNSAFE: 'the sandbox asks for something that would open it',
  SANDBOX_SPEC_CHANGED: 'the workflow or its policy changed since the run was started',
  SANDBOX_PREFLIGHT_FAILED: 'a check before the run failed, so nothing was started',
  SANDBOX_LOST: 'the container of a run ended while the run was under way',
  BACKEND_UNSUPPORTED: 'the backend of a node cannot run in a sandbox',
  NODE_FAILED: 'a command of the workflow failed',
  RUN_ORPHANED: 'the process that drove the run is gone',
  RUN_CANCELLED: 'the run was asked to end',
  RUNTIME_UNSUPPORTED: 'this Node.js is too old to be trusted with HTTP from strangers',
  INTERNAL: 'a fault of our own',
} as const

/** A code of {@link ERROR_MEANINGS}. Branch on it; messages may change. */
export type ErrorCode = keyof typeof ERROR_MEANINGS

/** A place in a file. Line and column start at 1. */
export interface SourcePlace {
  readonly file: string
  readonly line: number
  readonly column: number
}

/** One thing that is wrong with a file. */
export interface Problem {
  readonly code: ErrorCode
  readonly message: string
  readonly at?: SourcePlace
  /** The line of the file that {@link Problem.at} points into. */
  readonly sourceLine?: string
  /** The text to write instead, where there is one. */
  readonly correction?: string
}

interface EgressErrorOptions {
  readonly cause?: unknown
  readonly at?: SourcePlace
  readonly problems?: readonly Problem[]
}

/** An expected failure. A denial is never one: that is a `Decision`. */
export class EgressError extends Error {
  override readonly name = 'EgressError'
  readonly code: ErrorCode
  readonly at: SourcePlace | undefined
  /** Every problem of a file; the first one is the message. */
  readonly problems: readonly Problem[]

  constructor(code: ErrorCode, message: string, options: EgressErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.code = code
    this.at = options.at
    this.problems = options.problems ?? []
  }
}

/** The error for a file with at least one problem. */
export function problemsError(problems: readonly Problem[]): EgressError {
  const first = problems[0]
  if (first === undefined) throw new TypeError('problemsError needs a problem')
  return new EgressError(first.code, first.message, {
    ...(first.at && { at: first.at }),
    problems,
  })
}

/** One problem as people read it: place, sentence, the source line with a caret, the corrected form. */
export function formatProblem(problem: Problem): string {
  const { at, sourceLine, correction } = problem
  const lines = [
    `${at ? `${escapeControls(at.file)}:${at.line}:${at.column}: ` : ''}${escapeControls(problem.message)} [${problem.code}]`,
  ]
  if (at && sourceLine !== undefined) {
    const from = Math.max(0, at.column - 60)
    const shown = escapeControls(sourceLine.slice(from, from + 110))
    const before = escapeControls(sourceLine.slice(from, at.column - 1))
    lines.push(`    ${shown}`, `    ${' '.repeat(before.length)}^`)
  }
  if (correction !== undefined) lines.push(`    write instead: ${escapeControls(correction)}`)
  return lines.join('\n')
}

/** Text with controls and other invisible characters spelt as escapes, so that it is safe to show. */
export function escapeControls(text: string): string {
  return text.replace(
    /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}]/gu,
    (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`,
  )
}
