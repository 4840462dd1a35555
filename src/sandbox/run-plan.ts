import type { StdioOptions } from 'node:child_process'
import path from 'node:path'
import type { ContainerRuntime, RuntimeName } from '../door/container-runtime.ts'
import type { Policy } from '../policy/policy.ts'
import type { RepositorySandbox } from './choose-container.ts'
import { type DroppedFallback, screenFallbacks } from './backend.ts'
import { commandWorkflow } from './command-workflow.ts'
import { definesSandbox, repositoryOf } from './devcontainer/find-devcontainer.ts'
import type { Driver, ImageInfo } from './driver.ts'
import { createDockerDriver } from './drivers/docker.ts'
import { findRuntime } from './drivers/find-runtime.ts'
import type { SandboxHost } from './host.ts'
import { declaresPolicy, resolveNetwork, type RunNetwork } from './network-default.ts'
import { resolveSpec, type SpecDecision } from './resolve-spec.ts'
import { whyNoSeal } from './seal-forecast.ts'
import type { RunControl } from './run-control.ts'
import type { RunRecord } from './run-record.ts'
import type { Workflow } from './spec.ts'

/** What a run is made from; `resume` reads it again. */
export type RunSource = RunRecord['source']

/** What the operator says beside the workflow, as it is recorded with the run. */
export type RunFlags = RunRecord['flags']

/** How a run is started. */
export interface RunOptions {
  readonly flags: RunFlags
  /** The folder that the sandbox works in. */
  readonly workspace: string
  /** The values of `--env`. */
  readonly operatorEnv: Readonly<Record<string, string>>
  /** What holds where no tier says anything. */
  readonly builtIn: 'auto' | undefined
  /** The version of this program: the tag of the images that it names itself. */
  readonly version: string
  /** The sandbox that the repository defines; default: what the files of the repository say. */
  readonly repository?: RepositorySandbox
  readonly interactive: boolean
  readonly tty: boolean
  /** What the commands read and print to. */
  readonly stdio: StdioOptions
  /** Lines for people. */
  readonly say: (line: string) => void
  /** Output of `post_create`. */
  readonly stderr: (text: string) => void
  readonly control: RunControl
  /** Called as soon as the run has an id. */
  readonly onRecorded?: (record: RunRecord) => void
}

/** What of {@link RunOptions} decides. Without `control` nobody is asked about the image. */
export type PlanOptions = Pick<
  RunOptions,
  'flags' | 'workspace' | 'operatorEnv' | 'builtIn' | 'version' | 'repository'
> & {
  readonly control?: RunControl
  /** The runtime of the machine that is meant, if this one has none. */
  readonly assumedRuntime?: RuntimeName
}

/** A workflow with all that was decided about it before anything starts. */
export interface RunPlan {
  /** As written, without fallbacks that could not start where the run will be. */
  readonly workflow: Workflow
  /** Those fallbacks. */
  readonly dropped: readonly DroppedFallback[]
  readonly decision: SpecDecision
  readonly network: RunNetwork
  /** What the repository defines, whether or not it is used. */
  readonly repository: RepositorySandbox | undefined
  /** SHA-256 of what the workflow says, and of what the repository does if it defines the sandbox; in hex. */
  readonly digest: string
  /**
   * Reads and compiles the policy, once; undefined: the network is open. It is a good part of the work of starting, and
   * can be done while the engine makes the container.
   */
  readonly loadPolicy: () => Promise<Policy | undefined>
  readonly workflowDir: string
  readonly engine: Engine | undefined
}

/** The container engine of a plan. */
interface Engine {
  readonly runtime: ContainerRuntime
  readonly driver: Driver
  /** What it answers about the image: asked as early as can be, while this program is still loading. */
  readonly image: Promise<ImageInfo | undefined> | undefined
}

/**
 * Reads and decides everything that can be known before a run is recorded.
 *
 * @throws {EgressError} what is wrong with the workflow file or a variable
 */
export async function readPlan(
  host: SandboxHost,
  source: RunSource,
  options: PlanOptions,
): Promise<RunPlan> {
  const workflow = await readWorkflow(source)
  const { flags } = options
  const repository = await readRepository(host, source, workflow, options)
  const runtime = findRuntime(host)
  const decision = resolveSpec({
    cli: flags.sandbox ?? undefined,
    override: host.env['ITERION_SANDBOX_OVERRIDE'],
    workflow: workflow.sandbox,
    workflowFile: workflow.file,
    default: host.env['ITERION_SANDBOX_DEFAULT'],
    builtIn: options.builtIn,
    floor: host.env['ITERION_SANDBOX_FLOOR'],
    runtime: runtime?.name ?? options.assumedRuntime,
    whyNoSeal: runtime ? undefined : whyNoSeal(host),
    hasPolicy: source.policy !== null || declaresPolicy(workflow.sandbox),
    defaultImage: {
      flag: flags.default_image ?? undefined,
      env: host.env['ITERION_SANDBOX_DEFAULT_IMAGE'],
      version: options.version,
    },
    ...(repository && { repository }),
    hostState: {
      flag: flags.host_state ?? undefined,
      env: host.env['ITERION_SANDBOX_HOST_STATE'],
      guard: host.env['ITERION_SANDBOX_HOST_STATE_GUARD'],
    },
    hasFileSecrets: workflow.secrets.some((secret) => secret.as === 'file'),
  })
  const network = networkOf(source, workflow, decision, repository)
  const { nodes, dropped } = screenFallbacks(workflow.nodes, decision.kind === 'sandboxed')
  let loading: Promise<Policy | undefined> | undefined
  // First of all: while the engine looks for the image, the rest is loaded.
  const engine = runtime && openEngine(runtime, decision, options.control?.signal)
  return {
    workflow: { ...workflow, nodes },
    dropped,
    decision,
    network,
    repository,
    digest: await specDigest(workflow, decision, repository),
    loadPolicy: () => (loading ??= loadPolicy(source, network)),
    workflowDir: source.file === null ? host.cwd : path.dirname(source.file),
    engine,
  }
}

function openEngine(
  runtime: ContainerRuntime,
  decision: SpecDecision,
  signal: AbortSignal | undefined,
): Engine {
  const driver = createDockerDriver(runtime)
  const isAsked = decision.kind === 'sandboxed' && 'image' in decision.container
  const image =
    isAsked && signal ? driver.inspectImage(decision.container.image, signal) : undefined
  // Whoever waits for it is told.
  image?.catch(() => undefined)
  return { runtime, driver, image }
}

function networkOf(
  source: RunSource,
  workflow: Workflow,
  decision: SpecDecision,
  repository: RepositorySandbox | undefined,
): RunNetwork {
  // A policy beside a command line is a base of its own: nothing is defaulted.
  if (source.policy !== null) return { kind: 'policy', source: undefined, presets: [] }
  const isTheirs = decision.kind === 'sandboxed' && decision.container.from === 'repository'
  return resolveNetwork({
    block: workflow.sandbox,
    mode: decision.kind === 'sandboxed' ? decision.mode : 'none',
    ...(isTheirs && repository && { repository }),
  })
}

/**
 * The folder of the repository that a run receives: the one that is named or was recorded; else the one that holds the
 * workspace, and never the workspace as such. Null if there is none.
 */
export function engineRepository(
  { repository }: Pick<RunSource, 'repository'>,
  workspace: string,
): string | null {
  return repository === undefined ? (repositoryOf(workspace) ?? null) : repository
}

/** The sandbox that the repository defines, unless the workflow names its own: then nobody looks. */
async function readRepository(
  host: SandboxHost,
  source: RunSource,
  { sandbox }: Workflow,
  options: PlanOptions,
): Promise<RepositorySandbox | undefined> {
  if (options.repository !== undefined) return options.repository
  const isOwn = sandbox?.image !== undefined || sandbox?.build !== undefined
  const repository = isOwn ? null : engineRepository(source, options.workspace)
  if (repository === null) return undefined
  if (!definesSandbox(repository)) return undefined
  const { loadRepository } = await import('./devcontainer/load-repository.ts')
  const { workspace, operatorEnv } = options
  return loadRepository({ host, repository, workspace, operatorEnv })
}

async function specDigest(
  { said }: Workflow,
  decision: SpecDecision,
  repository: RepositorySandbox | undefined,
): Promise<string> {
  const { digestOf } = await import('./digest.ts')
  const digest = digestOf(said)
  if (repository?.digest === undefined || decision.kind !== 'sandboxed') return digest
  return decision.container.from === 'repository' ? digestOf([digest, repository.digest]) : digest
}

async function readWorkflow(source: RunSource): Promise<Workflow> {
  const { file, image, command, preset_dirs: dirs } = source
  if (file === null) return commandWorkflow({ image: image ?? undefined, command: command ?? [] })
  const { loadWorkflow } = await import('./workflow.ts')
  const { createCatalog } = await import('../presets/catalog.ts')
  return loadWorkflow(file, createCatalog({ dirs }))
}

async function loadPolicy(source: RunSource, network: RunNetwork): Promise<Policy | undefined> {
  if (network.kind === 'open') return undefined
  const { composeNetwork, loadRunPolicy } = await import('./run-policy.ts')
  const { createCatalog } = await import('../presets/catalog.ts')
  const catalog = createCatalog({ dirs: source.preset_dirs })
  return source.policy === null
    ? composeNetwork(network, catalog)
    : loadRunPolicy(source.policy, catalog)
}
