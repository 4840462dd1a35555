import { readFileSync } from 'node:fs'
import type { ContainerRuntime } from '../door/container-runtime.ts'
import { EgressError } from '../errors.ts'
import { type BuildInput, buildTag } from './build-tag.ts'
import { holderSpec } from './container-spec.ts'
import {
  type DockerfileFacts,
  isFetchingTrigger,
  leavesNetwork,
  readDockerfile,
} from './dockerfile.ts'
import type { ImageInfo, RunningContainer } from './driver.ts'
import { type Builder, buildImage, findBuilder, onBuildOf } from './drivers/docker-build.ts'
import { seccompProfile } from './drivers/seccomp-profile.ts'
import { proxyVariables } from './env-file.ts'
import { containerName, runLabels } from './labels.ts'
import type { SandboxRequest, SandboxTools } from './sandbox.ts'
import { DOOR_URL, isSealed, openDoor } from './sandbox-network.ts'
import type { Scratch } from './scratch.ts'
import { Teardown } from './teardown.ts'

/**
 * Builds the image of a run, unless an equal build has made it. In a run with a policy the build is behind the same door:
 * its steps share the network of a container that has nothing else.
 *
 * @returns the name of the image
 * @throws {EgressError} SANDBOX_SETUP_FAILED with the end of what the builder said; SANDBOX_SPEC_UNSAFE for a step that
 * would go past the door
 */
export async function ensureBuilt(
  input: BuildInput,
  request: SandboxRequest,
  tools: SandboxTools,
  scratch: Scratch,
  signal: AbortSignal,
): Promise<string> {
  const { driver, runtime, emit } = tools
  const sealed = isSealed(request)
  const tag = await buildTag(input, sealed ? 'sealed' : 'open', signal)
  if (await driver.inspectImage(tag, signal)) return tag
  const builder = await findBuilder(runtime, signal)
  const own = new Teardown()
  tools.teardown.add('build', () => own.run())
  emit({ type: 'sandbox_build_started', data: { tag, dockerfile: input.dockerfile, builder } })
  try {
    const network = sealed
      ? await sealBuild(input, builder, request, tools, scratch, own, signal)
      : undefined
    const isBehindDoor = network?.startsWith('container:') === true
    const spec = {
      input,
      tag,
      network,
      proxies: isBehindDoor ? buildProxies() : {},
      memoryBytes: request.memoryBytes,
    }
    const complaint = await buildImage(runtime, spec, builder, signal)
    if (complaint !== undefined) {
      emit({ type: 'sandbox_build_failed', data: { tag, stderr: complaint } })
      throw new EgressError('SANDBOX_SETUP_FAILED', `the image cannot be built:\n${complaint}`)
    }
  } finally {
    await own.run()
  }
  const built = await driver.inspectImage(tag, signal)
  emit({ type: 'sandbox_build_finished', data: { tag, image_id: built?.id ?? '' } })
  return tag
}

/** The variables that every builder hands to its steps, and keeps out of the image. */
function buildProxies(): Record<string, string> {
  const { NODE_USE_ENV_PROXY: _, ...predefined } = proxyVariables(DOOR_URL)
  return predefined
}

/** Gives a build the one way out that its run has, or none at all. */
async function sealBuild(
  input: BuildInput,
  builder: Builder,
  request: SandboxRequest,
  tools: SandboxTools,
  scratch: Scratch,
  own: Teardown,
  signal: AbortSignal,
): Promise<`container:${string}` | 'none'> {
  const { bases } = checkSealedBuild(input, tools.runtime, builder)
  // Every one of them: also what a later stage starts from brings its instructions.
  const images: ImageInfo[] = []
  for (const base of bases) images.push(await findBase(base, tools, signal))
  // It joins no container: its steps reach nothing.
  if (builder === 'buildx') return 'none'
  const policy = await request.loadPolicy()
  if (policy === undefined) throw new TypeError('a policy was lost')
  const seccompFile = scratch.write('build-seccomp.json', seccompProfile(), 0o600)
  for (const image of images) {
    const holder = await startHolder(image, request, tools, { scratch, seccompFile, own }, signal)
    if (holder === undefined) continue
    await openDoor(request, tools, { container: holder, scratch, policy, teardown: own }, signal)
    return `container:${holder.id}`
  }
  request.say(
    'the image starts from nothing that a door can be placed beside: its build reaches nothing',
  )
  return 'none'
}

/**
 * Judges a build that a run would make, as far as that can be told before.
 *
 * @throws {EgressError} what {@link ensureBuilt} throws for a build that is refused
 */
export async function assertBuildable(
  request: SandboxRequest,
  runtime: ContainerRuntime,
  signal: AbortSignal,
): Promise<void> {
  if (typeof request.image === 'string' || !isSealed(request)) return
  checkSealedBuild(request.image, runtime, await findBuilder(runtime, signal))
}

function checkSealedBuild(
  { dockerfile, args }: BuildInput,
  runtime: ContainerRuntime,
  builder: Builder,
): DockerfileFacts {
  if (runtime.name !== 'docker') {
    throw new EgressError(
      'SANDBOX_SETUP_FAILED',
      'a run with a policy builds its image with docker alone; build it before, and name it with image',
    )
  }
  const text = readFileSync(dockerfile, 'utf8')
  const facts = readDockerfile(text, args)
  const [first] = facts.fetches
  if (first !== undefined) {
    throw new EgressError(
      'SANDBOX_SPEC_UNSAFE',
      `${dockerfile}:${first.line}: ${first.text}: the engine would fetch that past the policy; use RUN with a program that fetches it`,
    )
  }
  if (builder === 'buildx' && leavesNetwork(text)) {
    throw new EgressError(
      'SANDBOX_SPEC_UNSAFE',
      `${dockerfile}: # syntax=, --network and --security would lead past the policy`,
    )
  }
  return facts
}

async function findBase(
  base: string,
  tools: SandboxTools,
  signal: AbortSignal,
): Promise<ImageInfo> {
  const { driver, runtime } = tools
  let image = await driver.inspectImage(base, signal)
  if (image === undefined) {
    await driver.pullImage(base, signal)
    image = await driver.inspectImage(base, signal)
  }
  if (image === undefined) {
    throw new EgressError('SANDBOX_IMAGE_UNAVAILABLE', `the image ${base} is gone again`)
  }
  const trigger = (await onBuildOf(runtime, image.id, signal)).find(isFetchingTrigger)
  if (trigger !== undefined) {
    throw new EgressError(
      'SANDBOX_SPEC_UNSAFE',
      `${base}: ${trigger}: the engine would fetch that past the policy when something is built on it`,
    )
  }
  return image
}

/** Starts a container that holds a network namespace; undefined if the image has no program to hold it with. */
async function startHolder(
  image: ImageInfo,
  request: SandboxRequest,
  { driver, handle, host }: SandboxTools,
  { scratch, seccompFile, own }: { scratch: Scratch; seccompFile: string; own: Teardown },
  signal: AbortSignal,
): Promise<RunningContainer | undefined> {
  const name = `${containerName(handle.record.id)}-build`
  let container: RunningContainer | undefined
  own.add('build container', async () =>
    container ? container.stop() : driver.remove([name], 8_000),
  )
  try {
    container = await driver.start(
      holderSpec({
        name,
        image,
        labels: runLabels(handle.record.id, host.identity),
        idFile: scratch.idFile,
        seccompFile,
        pidsLimit: request.pidsLimit,
        memoryBytes: request.memoryBytes,
      }),
      signal,
    )
    return container
  } catch (error) {
    if (error instanceof EgressError && /has no program "cat"/.test(error.message)) return undefined
    throw error
  }
}
