import { EgressError, type ErrorCode } from '../errors.ts'
import { Cancelled } from './failure.ts'

/** Everything that is looked at, in this order; not all of it for every run. */
export const CHECK_NAMES = [
  'knobs',
  'variables',
  'run store',
  'spec',
  'sandbox',
  'backends',
  'policy',
  'runtime',
  'daemon',
  'repository',
  'secrets',
  'image',
  'safety',
  'door',
  'door netns',
  'door sidecar',
  'seal',
] as const

export type CheckName = (typeof CHECK_NAMES)[number]

/** One thing that was looked at before a run. */
export interface Check {
  readonly name: CheckName
  /** A warning is for people, and changes no exit code. */
  readonly status: 'pass' | 'warn' | 'fail'
  readonly detail: string
  /** What to do about it; undefined for what passed. */
  readonly remedy: string | undefined
}

/** What to do about a failure whose message does not say it. */
const REMEDIES: Partial<Record<ErrorCode, string>> = {
  SANDBOX_DRIVER_UNAVAILABLE: 'install docker or podman',
  SANDBOX_ENGINE_UNREACHABLE: 'start the engine, and see that this user may talk to it',
  SANDBOX_IMAGE_UNAVAILABLE: 'correct the name of the image, or pull it',
  SANDBOX_DOOR_FAILED: 'take another door: --door',
  RUN_STORE_FAILED: 'point ITERION_HOME to a folder of your own',
}

export const pass = (name: CheckName, detail: string): Check => ({
  name,
  status: 'pass',
  detail,
  remedy: undefined,
})

export const warn = (name: CheckName, detail: string, remedy: string): Check => ({
  name,
  status: 'warn',
  detail,
  remedy,
})

export const fail = (name: CheckName, detail: string, remedy: string): Check => ({
  name,
  status: 'fail',
  detail,
  remedy,
})

/** A check that failed with an error: every problem of it, in one line. */
export function failedWith(name: CheckName, error: unknown): Check {
  if (error instanceof Cancelled) throw error
  if (!(error instanceof EgressError)) {
    return fail(name, `${String(error)} [INTERNAL]`, 'report it')
  }
  const { code, message, at, problems } = error
  const all = problems.length > 0 ? problems : [{ message, at }]
  const detail = all.map((one) => `${one.at ? `${placeOf(one.at)}: ` : ''}${one.message}`)
  return fail(name, `${detail.join('; ')} [${code}]`, REMEDIES[code] ?? 'correct what is named')
}

function placeOf({ file, line, column }: { file: string; line: number; column: number }): string {
  return `${file}:${line}:${column}`
}
