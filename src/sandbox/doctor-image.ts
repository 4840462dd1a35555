import type { ContainerRuntime } from '../door/container-runtime.ts'
import { assertBuildable } from './build-image.ts'
import { type Check, fail, failedWith, pass, warn } from './doctor-check.ts'
import type { Driver, ImageInfo } from './driver.ts'
import { findRemoteImage } from './drivers/remote-image.ts'
import type { SandboxHost } from './host.ts'
import { imageName } from './plan-run.ts'
import type { RunOptions, RunSource } from './run-plan.ts'
import type { SandboxRequest } from './sandbox.ts'

/** The bound of each question. */
export const TIMEOUT_KNOB = 'ITERION_SANDBOX_DOCTOR_TIMEOUT'

/** What is to be examined. */
export interface DoctorQuestion {
  /** The run; undefined: this machine alone. */
  readonly source: RunSource | undefined
  readonly options: RunOptions
  /** True: the registry is asked for an image that is not here, and the doors are tried. */
  readonly isStrict: boolean
  /** `local`: for a machine with a runtime, whether or not this one has one. */
  readonly target: 'auto' | 'local'
}

/** What is looked at, and with what. */
export interface Site {
  readonly host: SandboxHost
  readonly runtime: ContainerRuntime
  readonly driver: Driver
  readonly timeoutMs: number
  readonly question: DoctorQuestion
  /** Ends all of it. */
  readonly end: AbortSignal
}

/** Until when something may take. */
export function boundOf({ timeoutMs, end }: Pick<Site, 'timeoutMs' | 'end'>): AbortSignal {
  return AbortSignal.any([AbortSignal.timeout(timeoutMs), end])
}

/** What was found of an image. */
export interface FoundImage {
  readonly checks: readonly Check[]
  readonly name: string
  /** Undefined: it is not here. */
  readonly found: ImageInfo | undefined
}

/** Whether the image is here, or could be. */
export async function checkImage(site: Site, request: SandboxRequest): Promise<FoundImage> {
  const { driver, runtime, timeoutMs, question } = site
  const signal = boundOf(site)
  try {
    const name = await imageName(request, signal)
    const found = await driver.inspectImage(name, signal)
    if (found) return { checks: [pass('image', `${name} is here`)], name, found }
    if (typeof request.image !== 'string') {
      await assertBuildable(request, runtime, signal)
      return { checks: [pass('image', `${request.image.dockerfile} is to be built`)], name, found }
    }
    if (!question.isStrict) {
      const check = warn(
        'image',
        `${name} is not here`,
        'pull it, or let the run; --strict asks its registry',
      )
      return { checks: [check], name, found }
    }
    return { checks: [await askRegistry(runtime, name, timeoutMs, site.end)], name, found }
  } catch (error) {
    const why = signal.aborted ? `no answer in ${timeoutMs / 1000} s` : undefined
    const check =
      why === undefined ? failedWith('image', error) : fail('image', why, `raise ${TIMEOUT_KNOB}`)
    return { checks: [check], name: '', found: undefined }
  }
}

async function askRegistry(
  runtime: ContainerRuntime,
  name: string,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Check> {
  const remote = await findRemoteImage(runtime, name, { timeoutMs, signal })
  switch (remote.kind) {
    case 'there':
      return pass('image', `${name} is not here, and its registry has it`)
    case 'absent':
      return fail(
        'image',
        `${name} is not here, and its registry does not have it, or not for this user`,
        `correct its name, or log in to its registry`,
      )
    case 'unknown':
      return warn(
        'image',
        `${name} is not here, and its registry: ${remote.why}`,
        'a run pulls it, if its registry answers then',
      )
  }
}
