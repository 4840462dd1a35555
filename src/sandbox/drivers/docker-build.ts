import { type ContainerRuntime, runtimeCommand } from '../../door/container-runtime.ts'
import type { BuildInput } from '../build-tag.ts'

/** What an error repeats of what a build complained about, in characters. */
const MAX_TAIL = 4_096
const ASK_TIMEOUT_MS = 5_000

/** Who builds: docker's newer builder where it is installed, the one in the engine elsewhere. */
export type Builder = 'buildx' | 'classic'

/** One build. */
export interface BuildSpec {
  readonly input: BuildInput
  readonly tag: string
  /** `container:ID` is the network of that container; undefined: the engine's own. */
  readonly network: `container:${string}` | 'none' | undefined
  /** Variables that lead to the proxy; no image keeps them. */
  readonly proxies: Readonly<Record<string, string>>
  /** In bytes; 0: no limit. */
  readonly memoryBytes: number
}

/** The arguments of a build, each with its reason. */
export function buildArgs(
  { input, tag, network, proxies, memoryBytes }: BuildSpec,
  builder: Builder,
): string[] {
  const { dockerfile, context, args, target } = input
  const values = Object.entries({ ...args, ...proxies })
  return [
    // Into the engine's images, where a run finds it.
    ...(builder === 'buildx' ? ['buildx', 'build', '--load'] : ['build', '--force-rm']),
    `--tag=${tag}`,
    `--file=${dockerfile}`,
    ...(target === undefined ? [] : [`--target=${target}`]),
    ...(network === undefined ? [] : [`--network=${network}`]),
    // A build that eats memory ends alone. The newer builder has no such bound.
    ...(builder === 'classic' && memoryBytes > 0 ? [`--memory=${memoryBytes}`] : []),
    ...values.map(([name, value]) => `--build-arg=${name}=${value}`),
    context,
  ]
}

/** Which builder is here. */
export async function findBuilder(
  runtime: ContainerRuntime,
  signal: AbortSignal,
): Promise<Builder> {
  if (runtime.name !== 'docker') return 'classic'
  const { code } = await runtimeCommand(runtime, ['buildx', 'version'], {
    signal,
    timeoutMs: ASK_TIMEOUT_MS,
  })
  return code === 0 ? 'buildx' : 'classic'
}

/** Builds an image. Answers the end of what the builder complained about; undefined if it built. */
export async function buildImage(
  runtime: ContainerRuntime,
  spec: BuildSpec,
  builder: Builder,
  signal: AbortSignal,
): Promise<string | undefined> {
  const env = { ...runtime.env, ...(builder === 'classic' && { DOCKER_BUILDKIT: '0' }) }
  const { code, stdout, stderr } = await runtimeCommand(
    { ...runtime, env },
    buildArgs(spec, builder),
    // Its bound is that of its phase.
    { signal },
  )
  if (code === 0) return undefined
  signal.throwIfAborted()
  return `${stdout}\n${stderr}`.trim().slice(-MAX_TAIL)
}

/** The instructions that an image adds to whatever is built on it. */
export async function onBuildOf(
  runtime: ContainerRuntime,
  image: string,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const args = ['image', 'inspect', '--format', '{{json .Config.OnBuild}}', image]
  const { code, stdout } = await runtimeCommand(runtime, args, {
    signal,
    timeoutMs: ASK_TIMEOUT_MS,
  })
  return code === 0 ? ((JSON.parse(stdout) as string[] | null) ?? []) : []
}
