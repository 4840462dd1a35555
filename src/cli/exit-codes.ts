import { EgressError, type ErrorCode } from '../errors.ts'

/** The exit codes of every command but those that run another program. */
export const EXIT = {
  /** The answer is yes, or the work is done. */
  yes: 0,
  /** The answer is no: a denied target, a failing policy test, a warning under `--strict`. */
  no: 1,
  /** The command line cannot be understood. */
  usage: 2,
  /** A file is invalid. */
  fileInvalid: 3,
  /** This machine cannot do it. */
  hostCannot: 4,
} as const

export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

const BY_CODE: Readonly<Record<ErrorCode, ExitCode>> = {
  USAGE: EXIT.usage,
  OPTION_INVALID: EXIT.usage,
  FILE_UNREADABLE: EXIT.fileInvalid,
  POLICY_SYNTAX: EXIT.fileInvalid,
  POLICY_SHAPE: EXIT.fileInvalid,
  POLICY_PATTERN: EXIT.fileInvalid,
  POLICY_RULE: EXIT.fileInvalid,
  PRESET_UNKNOWN: EXIT.fileInvalid,
  PRESET_CYCLE: EXIT.fileInvalid,
  RESOLVE_FAILED: EXIT.hostCannot,
  RESOLVE_TIMEOUT: EXIT.hostCannot,
  LISTEN_FAILED: EXIT.hostCannot,
  WORKERS_LOST: EXIT.hostCannot,
  EVENTS_FAILED: EXIT.hostCannot,
  WORKFLOW_SHAPE: EXIT.fileInvalid,
  DEVCONTAINER_INVALID: EXIT.fileInvalid,
  PROGRAM_MISSING: EXIT.hostCannot,
  RUN_UNKNOWN: EXIT.no,
  RUN_STORE_FAILED: EXIT.hostCannot,
  RUN_NOT_RESUMABLE: EXIT.no,
  SANDBOX_DRIVER_UNAVAILABLE: EXIT.hostCannot,
  SANDBOX_ENGINE_UNREACHABLE: EXIT.hostCannot,
  SANDBOX_IMAGE_UNAVAILABLE: EXIT.hostCannot,
  SANDBOX_SETUP_FAILED: EXIT.hostCannot,
  SANDBOX_SETUP_TIMEOUT: EXIT.hostCannot,
  SANDBOX_DOOR_FAILED: EXIT.hostCannot,
  SANDBOX_SPEC_UNSAFE: EXIT.fileInvalid,
  SANDBOX_SPEC_CHANGED: EXIT.fileInvalid,
  SANDBOX_PREFLIGHT_FAILED: EXIT.hostCannot,
  SANDBOX_LOST: EXIT.hostCannot,
  BACKEND_UNSUPPORTED: EXIT.fileInvalid,
  NODE_FAILED: EXIT.no,
  RUN_ORPHANED: EXIT.hostCannot,
  RUN_CANCELLED: EXIT.no,
  RUNTIME_UNSUPPORTED: EXIT.hostCannot,
  INTERNAL: EXIT.hostCannot,
}

/** The exit code of a failure. A preset that only the command line names is a matter of usage. */
export function exitCodeOf(error: EgressError): ExitCode {
  if (error.code === 'PRESET_UNKNOWN' && error.at === undefined) return EXIT.usage
  return BY_CODE[error.code]
}
