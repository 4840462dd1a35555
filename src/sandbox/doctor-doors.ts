import { randomBytes } from 'node:crypto'
import { isRootless } from '../door/container-namespace.ts'
import type { ContainerRuntime } from '../door/container-runtime.ts'
import { EgressError } from '../errors.ts'
import { compilePolicy } from '../policy/compile.ts'
import { parsePolicy } from '../policy/parse.ts'
import type { Policy } from '../policy/policy.ts'
import { whyTakesPorts } from './door-forecast.ts'
import { holderSpec } from './container-spec.ts'
import { type Check, pass, warn } from './doctor-check.ts'
import type { Driver, ImageInfo } from './driver.ts'
import { seccompProfile } from './drivers/seccomp-profile.ts'
import type { SandboxHost } from './host.ts'
import { containerName, runLabels } from './labels.ts'
import { openDoor } from './sandbox-network.ts'
import { createScratch } from './scratch.ts'
import { Teardown } from './teardown.ts'

/** The doors that keep a sandbox in. */
const DOORS = ['netns', 'sidecar'] as const

/**
 * The policy of a door that is tried: with a port to serve, so that it shows whether the system lets it.
 *
 * @param like the policy whose addresses stand for names. Default: those of every policy
 */
export function trialPolicy(like?: Policy): Policy {
  const { rules } = parsePolicy('rules: ["door-trial.invalid:443"]', 'trial')
  return compilePolicy({ mode: 'allowlist', rules, ...(like && { door: like.door }) })
}

/** What doors are looked at with. */
export interface DoorQuestion {
  readonly host: SandboxHost
  readonly runtime: ContainerRuntime
  readonly driver: Driver
  readonly sidecarImage: string
  /** The image to try the doors with, which is here; undefined: they are not tried. */
  readonly image: ImageInfo | undefined
  /** The policy of the run, if there is one that can be read. */
  readonly policy: Policy | undefined
  /** The bound of each, in milliseconds. */
  readonly timeoutMs: number
  /** Ends all of it. */
  readonly end: AbortSignal
}

/**
 * Which doors work here, and why the others do not. With an image they are placed and proven, each in a container of its own
 * without a network, and removed.
 */
export async function checkDoors(question: DoorQuestion): Promise<readonly Check[]> {
  const checks: Check[] = []
  for (const kind of DOORS) {
    if (!question.end.aborted) checks.push(await checkDoor(kind, question))
  }
  return checks
}

async function checkDoor(kind: (typeof DOORS)[number], question: DoorQuestion): Promise<Check> {
  const name = `door ${kind}` as const
  const { host, runtime, driver, sidecarImage, timeoutMs } = question
  const rootless = isRootless(runtime, host.user.uid)
  if (kind === 'netns' && host.user.uid !== 0 && !rootless) {
    return warn(name, 'it needs root, or a rootless engine of your own', 'take --door sidecar')
  }
  if (kind === 'sidecar') {
    if (rootless) return warn(name, 'a rootless engine has none', 'take --door netns')
    const signal = AbortSignal.any([AbortSignal.timeout(timeoutMs), question.end])
    const image = await driver.inspectImage(sidecarImage, signal).catch(() => undefined)
    if (image === undefined) {
      const remedy = `docker build -t ${sidecarImage} . in a clone of this project`
      return warn(name, `its image ${sidecarImage} is not here`, remedy)
    }
  }
  if (question.image === undefined) {
    const taken = whyTakesPorts(kind, host)
    return pass(
      name,
      taken === undefined
        ? 'what it needs is here; it was not tried'
        : `it was not tried; ${TAKES_PORTS}: ${taken}`,
    )
  }
  const { problem, missing, isTaking = false } = await tried(kind, question, question.image)
  const other = kind === 'netns' ? 'take --door sidecar' : 'take --door netns'
  if (problem !== undefined) return warn(name, problem, other)
  if (missing === undefined) return pass(name, 'placed and proven')
  // It keeps a run in all the same.
  const lack = isTaking
    ? `${TAKES_PORTS}: ${missing}`
    : `names may not be found by every program: ${missing}`
  const remedy = kind === 'netns' ? 'install iptables and iproute2' : other
  return pass(name, `placed and proven, but ${lack}; ${remedy}`)
}

interface Trial {
  /** What is wrong. */
  readonly problem?: string
  /** What a door that works lacks. */
  readonly missing?: string
  /** True if it takes ports from the sandbox for that. */
  readonly isTaking?: boolean
}

const TAKES_PORTS =
  'servers of the sandbox cannot listen on ports that the policy allows, such as 443'

/** Tries a door, and looks that nothing of it is left. */
async function tried(
  kind: (typeof DOORS)[number],
  question: DoorQuestion,
  image: ImageInfo,
): Promise<Trial> {
  const teardown = new Teardown()
  const trial = await tryDoor(kind, question, image, teardown)
  const left = await teardown.run()
  if (left.length === 0) return trial
  return { problem: `${trial.problem ?? 'it works'}; left behind: ${left.join(', ')}` }
}

/** Places a door and proves it. */
async function tryDoor(
  kind: (typeof DOORS)[number],
  question: DoorQuestion,
  image: ImageInfo,
  teardown: Teardown,
): Promise<Trial> {
  const { host, runtime, driver, sidecarImage, timeoutMs, end } = question
  const signal = AbortSignal.any([AbortSignal.timeout(timeoutMs), end])
  const id = `doctor-${randomBytes(6).toString('hex')}`
  const name = containerName(id)
  try {
    const scratch = createScratch(host.tempRoot)
    teardown.add('scratch', () => scratch.remove())
    let stop: (() => Promise<readonly string[]>) | undefined
    teardown.add('container', () => (stop ? stop() : driver.remove([name], timeoutMs)))
    const container = await driver.start(
      holderSpec({
        name,
        image,
        labels: runLabels(id, host.identity),
        idFile: scratch.idFile,
        seccompFile: scratch.write('seccomp.json', seccompProfile(), 0o600),
        pidsLimit: 64,
        memoryBytes: 0,
      }),
      signal,
    )
    stop = () => container.stop()
    const tools = { host, runtime, emit: () => undefined, handle: { record: { id } } }
    const policy = trialPolicy(question.policy)
    const { missing, taken } = await openDoor(
      { door: kind, sidecarImage },
      tools,
      { container, scratch, policy, teardown },
      signal,
    )
    return missing === undefined ? {} : { missing, isTaking: taken.length > 0 }
  } catch (error) {
    if (signal.aborted) return { problem: `it was not there after ${timeoutMs / 1000} s` }
    if (error instanceof EgressError) return { problem: error.message }
    throw error
  }
}
