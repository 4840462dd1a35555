import type { StdioOptions } from 'node:child_process'
import type { ContainerRuntime } from '../door/container-runtime.ts'
import type { DoorChoice } from '../door/door.ts'
import { EgressError } from '../errors.ts'
import type { EgressEvent } from '../events/event.ts'
import type { Policy } from '../policy/policy.ts'
import type { BuildInput } from './build-tag.ts'
import { type ContainerParts, containerSpec, imageUserOf } from './container-spec.ts'
import type { Devcontainer } from './devcontainer/read-devcontainer.ts'
import type { Driver, ImageInfo, RunningContainer } from './driver.ts'
import { seccompProfile } from './drivers/seccomp-profile.ts'
import type { SandboxHost } from './host.ts'
import type { Knobs } from './knobs.ts'
import { containerName, runLabels } from './labels.ts'
import { type Layout, layOut } from './layout.ts'
import type { NodeProcess } from './node-process.ts'
import { repositoryEnvironment } from './repository-env.ts'
import { reportLayout, reportRepository } from './report.ts'
import { orLost } from './lost.ts'
import { runPhase } from './phase.ts'
import { postCreatesOf, runPostCreate } from './post-create.ts'
import type { RunControl } from './run-control.ts'
import { otherGuards, type RunHandle } from './run-store.ts'
import { openCommands } from './sandbox-commands.ts'
import { DOOR_URL, isSealed, openNetwork } from './sandbox-network.ts'
import { createScratch, type Scratch } from './scratch.ts'
import type { Secrets } from './secrets.ts'
import type { HostState, NodeSpec, SandboxBlock, Workflow } from './spec.ts'
import type { Teardown } from './teardown.ts'
import { beforeOthers, settleGuard, type WorkspaceGuard } from './workspace-guard.ts'

/** How long a removal may take before it is given up, in milliseconds. */
const REMOVE_TIMEOUT_MS = 8_000

/** Everything that a sandbox is made of, decided. */
export interface SandboxRequest {
  readonly workflow: Workflow
  readonly block: SandboxBlock | undefined
  readonly hostState: HostState
  /** The image, or what it is built from. */
  readonly image: string | BuildInput
  /** What the engine answers about the image, if it was asked already. */
  readonly inspected: Promise<ImageInfo | undefined> | undefined
  /** What the repository says, if it defines the sandbox. */
  readonly repository: Devcontainer | undefined
  readonly workspace: string
  readonly workflowDir: string
  /** False: the network is open. */
  readonly hasPolicy: boolean
  /** Reads the policy; undefined if there is none. Called while the engine makes the container. */
  readonly loadPolicy: () => Promise<Policy | undefined>
  readonly door: DoorChoice
  readonly sidecarImage: string
  /** `--resolve` as given, for the record. */
  readonly resolve: readonly string[]
  /** What the operator names for this run. */
  readonly operatorEnv: Readonly<Record<string, string>>
  readonly secrets: Secrets
  readonly knobs: Knobs
  /** In bytes; 0: no limit. */
  readonly memoryBytes: number
  /** How many processes and threads; 0: no limit. */
  readonly pidsLimit: number
  readonly interactive: boolean
  readonly tty: boolean
  readonly stdio: StdioOptions
  /** Lines for people. */
  readonly say: (line: string) => void
  /** Where the output of `post_create` goes. */
  readonly stderr: (text: string) => void
}

/** What a sandbox is made with. */
export interface SandboxTools {
  readonly host: SandboxHost
  readonly runtime: ContainerRuntime
  readonly driver: Driver
  readonly handle: RunHandle
  readonly emit: (event: EgressEvent) => void
  readonly control: RunControl
  readonly teardown: Teardown
}

/** A sandbox that stands. */
export interface Sandbox {
  start(node: NodeSpec): NodeProcess
  /** Rejects when the container ends before it is told to. */
  readonly lost: Promise<never>
}

/**
 * Sets up a sandbox: image, container, door, secrets, `post_create`. Each thing is put down for the teardown before it
 * is made, and nothing of the workflow runs before the door is proven.
 *
 * @throws {EgressError} what the phases throw
 */
export async function setUpSandbox(request: SandboxRequest, tools: SandboxTools): Promise<Sandbox> {
  const { host, control, teardown, driver, handle, emit } = tools
  const phase: RunInPhase = (name, work) =>
    runPhase(request.knobs[name], emit, control.signal, work)

  const scratch = createScratch(host.tempRoot)
  teardown.add('scratch', () => scratch.remove())
  handle.update({ scratch: scratch.path })
  const imageName = await nameImage(request, tools, scratch, phase)
  const image = await phase('pull', (signal) => findImage(driver, imageName, request, signal))
  const layout = layOut({ ...request, host, image, scratch })
  reportLayout(layout, request, emit)
  const repositoryEnv =
    request.repository && repositoryEnvironment(request.repository, image.env, layout.workdir)
  if (request.repository) reportRepository(request.repository, repositoryEnv, request, emit)
  const guard = await guardOf(layout, tools)
  handle.writeGuard(JSON.stringify(guard))
  teardown.add('workspace', (left) => {
    // What a container that works on leaves there is for the reaper to find, which needs the guard as it is.
    if (left.includes(containerName(handle.record.id))) return undefined
    const changed = settleGuard(guard, handle.record.id)
    handle.removeGuard()
    if (changed) emit({ type: 'sandbox_git_metadata_changed', data: changed })
    return changed?.failed.map(({ path, reason }) => `${path}: ${reason}`)
  })
  const starting = phase('create', (signal) =>
    startContainer(request, tools, scratch, { image, layout, repositoryEnv }, signal),
  )
  const [container, policy] = await both(starting, afterStart(request.loadPolicy))
  handle.update({ container: container.id })
  const commandsPast = (proxyUrl: string | undefined) =>
    openCommands(request, {
      driver,
      layout,
      scratch,
      repositoryEnv: repositoryEnv?.env ?? {},
      container: container.id,
      proxyUrl,
    })
  // While its door is placed and proven, the sandbox has no way out at all.
  const sealed = isSealed(request) ? commandsPast(DOOR_URL) : undefined
  const postCreates = postCreatesOf(
    request,
    layout.user.user,
    imageUserOf(request, { image, layout, user: host.user }),
  )
  if (postCreates.length === 0) sealed?.hold(nextNode(request, handle))
  const network = await phase('door', (signal) =>
    openNetwork(request, tools, { container, scratch, policy }, signal),
  ).catch((error: unknown) => {
    sealed?.drop()
    throw error
  })
  emit({
    type: 'sandbox_started',
    data: {
      image: imageName,
      image_id: image.id,
      container: container.id,
      runtime: tools.runtime.name,
      user: layout.user.user,
      workspace: layout.workdir,
      resolve: [...request.resolve],
      door: network.kind,
    },
  })
  const lost = Promise.race([
    container.ended.then(() => 'the container of the run has ended'),
    ...(network.lost ? [network.lost] : []),
  ]).then((why) => {
    throw new EgressError('SANDBOX_LOST', why)
  })
  lost.catch(() => undefined)
  const commands = sealed ?? commandsPast(network.proxyUrl)
  await phase('create', (signal) => commands.writeSecrets(signal))
  if (postCreates.length > 0) {
    await phase('post_create', async (signal) => {
      let index = 0
      for (const { atOnce, user } of postCreates) {
        const nodes = atOnce.map((command) => commands.postCreate(command, user, index++))
        const running = nodes.map((node) => runPostCreate(node, request.stderr, signal))
        await orLost(Promise.all(running), lost)
      }
    })
  }
  return { start: (node) => commands.start(node), lost }
}

/** The guard of a layout. Other runs may work in the same workspace, or may have been killed there. */
async function guardOf({ guard }: Layout, { host, handle }: SandboxTools): Promise<WorkspaceGuard> {
  const texts = otherGuards(host, handle.record.id)
  if (texts.length === 0) return guard
  const { readGuard } = await import('./guard-record.ts')
  return beforeOthers(guard, texts.map(readGuard))
}

/** Waits for both also if one fails: the teardown must not meet a container that is still being made. */
async function both<A, B>(first: Promise<A>, second: Promise<B>): Promise<[A, B]> {
  await Promise.allSettled([first, second])
  return Promise.all([first, second])
}

/**
 * Loads what the door needs, or what comes later, once the engine is at work. The policy that it answers is there before the door is placed,
 * and so before anything of the workflow runs.
 */
async function afterStart(loadPolicy: SandboxRequest['loadPolicy']): Promise<Policy | undefined> {
  await new Promise((resolve) => setImmediate(resolve))
  const policy = await loadPolicy()
  if (policy === undefined) await import('./orphans.ts')
  else {
    await Promise.all([
      import('../proxy/egress-proxy.ts'),
      import('../door/place-door.ts'),
      import('../door/serve-door.ts'),
      import('../door/synthetic-names.ts'),
    ])
  }
  return policy
}

type RunInPhase = <T>(name: keyof Knobs, work: (signal: AbortSignal) => Promise<T>) => Promise<T>

/** The name of the image, which is built if it has to be. */
async function nameImage(
  request: SandboxRequest,
  tools: SandboxTools,
  scratch: Scratch,
  phase: RunInPhase,
): Promise<string> {
  const { image } = request
  if (typeof image === 'string') return image
  const { ensureBuilt } = await import('./build-image.ts')
  return phase('build', (signal) => ensureBuilt(image, request, tools, scratch, signal))
}

async function findImage(
  driver: Driver,
  name: string,
  { inspected }: SandboxRequest,
  signal: AbortSignal,
): Promise<ImageInfo> {
  const aborted = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
  })
  aborted.catch(() => undefined)
  // Asked before there was a phase, it does not hear of its end.
  const here = await Promise.race([inspected ?? driver.inspectImage(name, signal), aborted])
  if (here) return here
  await driver.pullImage(name, signal)
  const pulled = await driver.inspectImage(name, signal)
  if (pulled) return pulled
  throw new EgressError('SANDBOX_IMAGE_UNAVAILABLE', `the image ${name} is gone again`)
}

/** The node that the checkpoint leads to; undefined if none is left. */
function nextNode({ workflow }: SandboxRequest, { record }: RunHandle): NodeSpec | undefined {
  return workflow.nodes.find(({ id }) => id === record.checkpoint.next)
}

async function startContainer(
  request: SandboxRequest,
  { host, runtime, driver, handle, teardown }: SandboxTools,
  scratch: Scratch,
  parts: Pick<ContainerParts, 'image' | 'layout' | 'repositoryEnv'>,
  signal: AbortSignal,
): Promise<RunningContainer> {
  const name = containerName(handle.record.id)
  let container: RunningContainer | undefined
  teardown.add('container', async () => {
    // A start that was cut short may have made it all the same.
    return container ? container.stop() : driver.remove([name], REMOVE_TIMEOUT_MS)
  })
  container = await driver.start(
    containerSpec(request, {
      ...parts,
      runId: handle.record.id,
      labels: runLabels(handle.record.id, host.identity),
      runtime: runtime.name,
      user: host.user,
      idFile: scratch.idFile,
      seccompFile: scratch.write('seccomp.json', seccompProfile(), 0o600),
    }),
    signal,
  )
  return container
}
