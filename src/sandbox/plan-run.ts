import { dirname, join } from 'node:path'
import type { DoorKind } from '../door/door.ts'
import { isRootless } from '../door/container-namespace.ts'
import type { ContainerRuntime } from '../door/container-runtime.ts'
import { EgressError } from '../errors.ts'
import {
  assertSandboxable,
  type Backend,
  type DroppedFallback,
  nodeProgram,
  type NodeProgram,
} from './backend.ts'
import { bareSite } from './bare-site.ts'
import { assertBuildable } from './build-image.ts'
import { type BuildInput, buildTag } from './build-tag.ts'
import type { ChosenContainer } from './choose-container.ts'
import { containerSpec, imageUserOf } from './container-spec.ts'
import { whyTakesPorts } from './door-forecast.ts'
import type { ImageInfo } from './driver.ts'
import { runArgs } from './drivers/docker-args.ts'
import { splitEnvironment } from './env-file.ts'
import { mergeLayers } from './environment.ts'
import type { SandboxHost } from './host.ts'
import { RUN_LABEL, runLabels } from './labels.ts'
import { type Layout, layOut } from './layout.ts'
import { pretendingMaker } from './maker.ts'
import { plannedEnvironment, plannedLayers, type PlannedVariable } from './planned-environment.ts'
import { realOf } from './paths.ts'
import type { Phase } from './phase.ts'
import { type PostCreate, postCreatesOf } from './post-create.ts'
import { reportLayout, reportRepository } from './report.ts'
import { type RepositoryEnvironment, repositoryEnvironment } from './repository-env.ts'
import type { SandboxedSpec, SpecDecision } from './resolve-spec.ts'
import type { RunNetwork } from './network-default.ts'
import { readPlan, type RunOptions, type RunPlan, type RunSource } from './run-plan.ts'
import { checkStore } from './run-store.ts'
import type { SandboxRequest } from './sandbox.ts'
import { sandboxRequest } from './sandbox-request.ts'
import type { NodeSpec } from './spec.ts'
import { assertReadable } from './sandbox-commands.ts'
import { ADVISORY, isSealed, RESOLVE_IN_VAIN } from './sandbox-network.ts'

/** What stands in a forecast for what only a run has. */
const PLACEHOLDER = {
  run: '<run>',
  scratch: '<scratch>',
  image: '<image>',
  owner: '<owner>',
} as const

/** The sandbox of a run that does not run yet. */
export interface PlannedSandbox {
  readonly image: {
    /** As it is named; of a build the name that it gets. */
    readonly name: string
    readonly from: ChosenContainer['from']
    /** Its content; undefined: it is not here, and what it says of user, variables and volumes is not known. */
    readonly id: string | undefined
    readonly build: BuildInput | undefined
  }
  readonly layout: Layout
  readonly hostState: SandboxedSpec['hostState']
  readonly environment: readonly PlannedVariable[]
  /** Variables of a repository, or of the image that it chose, that are taken out. */
  readonly denied: readonly { readonly source: string; readonly names: readonly string[] }[]
  /** The door that is tried first; undefined: the network is open. */
  readonly door: DoorKind | undefined
  /** Why that door takes the ports of the policy from the sandbox's own servers; undefined: it does not. */
  readonly whyTakesPorts: string | undefined
  readonly phases: readonly Phase[]
  readonly memoryBytes: number
  readonly pidsLimit: number
  readonly postCreate: readonly PostCreate[]
  /** The engine's program and its arguments. */
  readonly argv: readonly string[]
  /** What a run would tell people of all that. */
  readonly notes: readonly string[]
  readonly warnings: readonly string[]
}

/** The seal around each node of a run without a container. */
export interface PlannedSeal {
  /** Why its door takes the ports of the policy from the nodes' own servers; undefined: it does not. */
  readonly whyTakesPorts: string | undefined
}

/** A node as it will run. */
export interface PlannedNode {
  readonly id: string
  readonly backend: Backend
  readonly fallback: readonly Backend[]
  readonly words: readonly string[]
  /** What it reads, if it is given something. */
  readonly input: string | undefined
}

/** A run that does not run yet. */
export interface PlannedRun {
  readonly plan: RunPlan
  readonly decision: SpecDecision
  readonly network: RunNetwork
  /** Undefined: there is none. */
  readonly sandbox: PlannedSandbox | undefined
  /** Set if the nodes are sealed as processes of this machine. */
  readonly seal: PlannedSeal | undefined
  readonly nodes: readonly PlannedNode[]
  readonly dropped: readonly DroppedFallback[]
  /** Names that the operator answers for, as given. */
  readonly resolve: readonly string[]
  /** Why it would not start; undefined: it would. */
  readonly refusal: EgressError | undefined
}

/**
 * What a run would be, from the same parts that make one. The engine is asked what it knows of the image; nothing is
 * started, pulled, made or recorded.
 *
 * @throws {EgressError} what is wrong with the workflow file, its policy or a variable; what the engine throws
 */
export async function planRun(
  host: SandboxHost,
  source: RunSource,
  options: RunOptions,
): Promise<PlannedRun> {
  const plan = await readPlan(host, source, options)
  const { decision, network, workflow, dropped } = plan
  await plan.loadPolicy()
  checkStore(host)
  const isSealedProcess = decision.kind === 'sealed'
  const seal = isSealedProcess ? { whyTakesPorts: whyTakesPorts('process', host) } : undefined
  const run = { plan, decision, network, dropped, seal, resolve: options.flags.resolve }
  const unsure = { iterion: 'iterion', workdir: options.workspace }
  const bare = () => workflow.nodes.map((node) => plannedNode(node, nodeProgram(node, unsure)))
  if (decision.kind === 'refused') {
    const refusal = new EgressError(decision.failureCode, decision.message)
    return { ...run, sandbox: undefined, nodes: bare(), refusal }
  }
  try {
    if (decision.kind !== 'sandboxed') {
      const site = bareSite(host, workflow, options.workspace)
      const nodes = workflow.nodes.map((node) => plannedNode(node, site.program(node)))
      return { ...run, sandbox: undefined, nodes, refusal: undefined }
    }
    assertSandboxable(workflow.nodes)
    const sandbox = await planSandbox(host, plan, decision, options)
    const { iterion, workdir } = sandbox.layout
    const site = { iterion, workdir }
    const nodes = workflow.nodes.map((node) => plannedNode(node, nodeProgram(node, site)))
    return { ...run, sandbox, nodes, refusal: undefined }
  } catch (error) {
    if (!(error instanceof EgressError)) throw error
    return { ...run, sandbox: undefined, nodes: bare(), refusal: error }
  }
}

function plannedNode(
  { id, backend, fallback }: NodeSpec,
  { words, input }: NodeProgram,
): PlannedNode {
  return { id, backend, fallback, words, input }
}

async function planSandbox(
  host: SandboxHost,
  plan: RunPlan,
  decision: SandboxedSpec,
  options: RunOptions,
): Promise<PlannedSandbox> {
  const { engine } = plan
  if (engine === undefined) throw new TypeError('a sandbox without a runtime')
  const { request, warnings } = sandboxRequest(host, plan, decision, options, plan.loadPolicy)
  const { signal } = options.control
  const name = await imageName(request, signal)
  const found = await (request.inspected ?? engine.driver.inspectImage(name, signal)).catch(
    (error: unknown) => {
      signal.throwIfAborted()
      throw error
    },
  )
  if (found === undefined) await assertBuildable(request, engine.runtime, signal)
  return describeSandbox(host, plan, {
    request,
    warnings,
    from: decision.container.from,
    name,
    found,
  })
}

/** What a sandbox is described by. */
interface Asked {
  readonly request: SandboxRequest
  readonly warnings: readonly string[]
  readonly from: ChosenContainer['from']
  /** The name of the image, and what the engine says of it; undefined: it is not here. */
  readonly name: string
  readonly found: ImageInfo | undefined
}

/**
 * The sandbox that a request would get. Nobody is asked, and nothing is made.
 *
 * @throws {EgressError} SANDBOX_SPEC_UNSAFE and all else that a layout throws
 */
export function describeSandbox(
  host: SandboxHost,
  { engine }: Pick<RunPlan, 'engine'>,
  { request, warnings, from, name, found }: Asked,
): PlannedSandbox {
  const runtime = engine?.runtime ?? { name: 'docker' as const, program: 'docker', globalArgs: [] }
  const build = typeof request.image === 'string' ? undefined : request.image
  const image = found ?? { id: PLACEHOLDER.image, user: '', env: {}, volumes: [] }
  const scratch = (file: string) => `${PLACEHOLDER.scratch}/${file}`
  const layout = layOut({
    ...request,
    host,
    image,
    scratch: { status: { path: scratch('status') }, write: (file) => scratch(file) },
    ...beforeARun(host),
  })
  const { repository } = request
  const repositoryEnv = repository && repositoryEnvironment(repository, image.env, layout.workdir)
  const spec = containerSpec(request, {
    runId: PLACEHOLDER.run,
    labels: plannedLabels(),
    runtime: runtime.name,
    user: host.user,
    image,
    layout,
    repositoryEnv,
    idFile: scratch('cid'),
    seccompFile: scratch('seccomp.json'),
  })
  const postCreate = postCreatesOf(
    request,
    layout.user.user,
    imageUserOf(request, { image, layout, user: host.user }),
  )
  const layers = plannedLayers(request, layout, repositoryEnv)
  const { shellFile } = splitEnvironment(mergeLayers(layers))
  for (const { user } of postCreate) assertReadable(shellFile, user, layout.user.user)
  const door = doorOf(request, host, engine?.runtime)
  return {
    image: { name, from, id: found?.id, build },
    layout,
    hostState: request.hostState,
    environment: plannedEnvironment(request, layers, image, repositoryEnv),
    denied: repositoryEnv?.denied ?? [],
    door,
    whyTakesPorts: whyTakesPorts(door, host),
    phases: Object.values(request.knobs),
    memoryBytes: request.memoryBytes,
    pidsLimit: request.pidsLimit,
    postCreate,
    notes: notesOf(request, layout, repositoryEnv),
    argv: [runtime.program, ...runtime.globalArgs, ...runArgs(spec, runtime.name)],
    warnings: request.hasPolicy && request.door === 'advisory' ? [...warnings, ADVISORY] : warnings,
  }
}

/** The lines that a run would print of its layout and of its repository. */
function notesOf(
  request: SandboxRequest,
  layout: Layout,
  repositoryEnv: RepositoryEnvironment | undefined,
): readonly string[] {
  const notes: string[] = []
  const listener = { say: (line: string) => notes.push(line), workflow: request.workflow }
  const toNobody = () => undefined
  reportLayout(layout, listener, toNobody)
  if (request.repository) reportRepository(request.repository, repositoryEnv, listener, toNobody)
  if (!request.hasPolicy && request.resolve.length > 0) notes.push(RESOLVE_IN_VAIN)
  return notes
}

/** What a run finds when its sandbox is laid out: it is recorded by then. */
function beforeARun(host: SandboxHost) {
  const recorded = foldersOf(realOf(join(host.iterionHome, 'runs')))
  return { maker: pretendingMaker(recorded), recorded }
}

/** A folder and all that it is in. */
function foldersOf(folder: string): string[] {
  return folder === '/' ? [] : [...foldersOf(dirname(folder)), folder]
}

/** The labels of nobody: a forecast has no process that would look after it. */
function plannedLabels(): Record<string, string> {
  const nobody = { bootId: '', pidNamespace: '', pid: 0, startTime: '' }
  const labels = runLabels(PLACEHOLDER.run, nobody)
  for (const name of Object.keys(labels)) {
    if (name !== RUN_LABEL) labels[name] = PLACEHOLDER.owner
  }
  return labels
}

/** The name of the image of a run, which may have to be built or fetched. */
export function imageName(request: SandboxRequest, signal: AbortSignal): Promise<string> | string {
  const { image } = request
  return typeof image === 'string'
    ? image
    : buildTag(image, isSealed(request) ? 'sealed' : 'open', signal)
}

/** The door that a run tries first. */
function doorOf(
  { hasPolicy, door }: SandboxRequest,
  host: SandboxHost,
  runtime: ContainerRuntime | undefined,
): DoorKind | undefined {
  if (!hasPolicy) return undefined
  if (door !== 'auto') return door
  const isOwn = runtime !== undefined && isRootless(runtime, host.user.uid)
  return host.user.uid === 0 || isOwn ? 'netns' : 'sidecar'
}
