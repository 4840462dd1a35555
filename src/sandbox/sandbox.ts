import type { StdioOptions } from 'node:child_process'
import type { ContainerRuntime } from '../door/container-runtime.ts'
import type { DoorChoice } from '../door/door.ts'
import { EgressError } from '../errors.ts'
import type { EgressEvent } from '../events/event.ts'
import type { Policy } from '../policy/policy.ts'
import type { Driver, ExecSpec, ImageInfo, RunningContainer } from './driver.ts'
import { proxyVariables, splitEnvironment } from './env-file.ts'
import { DIFFERENCES } from './drivers/differences.ts'
import { seccompProfile } from './drivers/seccomp-profile.ts'
import type { SandboxHost } from './host.ts'
import type { Knobs } from './knobs.ts'
import { runLabels } from './labels.ts'
import { type Layout, layOut, layoutSpec } from './layout.ts'
import {
  commandWords,
  type ContainerNode,
  type NodeProcess,
  startContainerNode,
} from './node-process.ts'
import { runPhase } from './phase.ts'
import { runPostCreate } from './post-create.ts'
import type { RunControl } from './run-control.ts'
import { otherGuards, type RunHandle } from './run-store.ts'
import { openNetwork, type SandboxNetwork } from './sandbox-network.ts'
import { createScratch, type Scratch } from './scratch.ts'
import { type Secrets, writeSecrets } from './secrets.ts'
import type { HostState, NodeSpec, SandboxBlock, Workflow } from './spec.ts'
import type { Teardown } from './teardown.ts'
import { beforeOthers, settleGuard, type WorkspaceGuard } from './workspace-guard.ts'

/** How long a removal may take before it is given up, in milliseconds. */
const REMOVE_TIMEOUT_MS = 8_000

/** The number of `post_create` in the status file; nodes count from 0. */
const POST_CREATE_INDEX = 1_000_000

/** Everything that a sandbox is made of, decided. */
export interface SandboxRequest {
  readonly workflow: Workflow
  readonly block: SandboxBlock | undefined
  readonly hostState: HostState
  readonly image: string
  /** What the engine answers about the image, if it was asked already. */
  readonly inspected: Promise<ImageInfo | undefined> | undefined
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
  start(node: NodeSpec, index: number): NodeProcess
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
  const phase = <T>(name: keyof Knobs, work: (signal: AbortSignal) => Promise<T>) =>
    runPhase(request.knobs[name], emit, control.signal, work)

  const scratch = createScratch(host.tempRoot)
  teardown.add('scratch', () => scratch.remove())
  handle.update({ scratch: scratch.path })
  const image = await phase('pull', (signal) => findImage(driver, request, signal))
  const layout = layOut({ ...request, host, image, scratch })
  report(layout, request, emit)
  const guard = await guardOf(layout, tools)
  handle.writeGuard(JSON.stringify(guard))
  teardown.add('workspace', () => {
    const changed = settleGuard(guard, handle.record.id)
    handle.removeGuard()
    if (changed) emit({ type: 'sandbox_git_metadata_changed', data: changed })
    return changed?.failed.map(({ path, reason }) => `${path}: ${reason}`)
  })
  const starting = phase('create', (signal) =>
    startContainer(request, tools, { image, layout, scratch }, signal),
  )
  const [container, policy] = await both(starting, afterStart(request.loadPolicy))
  handle.update({ container: container.id })
  const network = await phase('door', (signal) =>
    openNetwork(request, tools, { container, scratch, policy }, signal),
  )
  emit({
    type: 'sandbox_started',
    data: {
      image: request.image,
      image_id: image.id,
      container: container.id,
      runtime: tools.runtime.name,
      user: layout.user.user,
      workspace: layout.workdir,
      resolve: [...request.resolve],
      door: network.kind,
    },
  })
  const env = environmentOf(request, network)
  const { envFile, shellFile } = splitEnvironment({
    ...(layout.home !== undefined && { HOME: layout.home }),
    ...env,
  })
  const exec: ExecSpec = {
    container: container.id,
    user: layout.user.user,
    workdir: layout.workdir,
    envFile: scratch.write('env', envFile, 0o600),
    interactive: false,
    tty: false,
    command: [],
  }
  const nodeOf = (index: number, command: readonly string[]): ContainerNode => ({
    exec: { ...exec, command },
    driver,
    index,
    status: scratch.status,
  })
  await phase('create', (signal) =>
    writeSecrets(driver, exec, request.secrets.files, shellFile, signal),
  )
  const { postCreate } = request.block ?? {}
  if (postCreate !== undefined) {
    const node = nodeOf(POST_CREATE_INDEX, commandWords(postCreate))
    // As the image's user: it installs what the image's author would have.
    const user = request.block?.user ?? (image.user || 'root')
    assertReadable(shellFile, user, exec.user)
    // Its home is its own.
    const file =
      user === exec.user ? exec.envFile : scratch.write('post-create-env', envFile, 0o600)
    await phase('post_create', (signal) =>
      runPostCreate(
        { ...node, exec: { ...node.exec, user, envFile: file } },
        request.stderr,
        signal,
      ),
    )
  }
  return {
    start(node, index) {
      const { exec: plain, ...rest } = nodeOf(index, commandWords(node.command))
      const { interactive, tty } = request
      return startContainerNode({ ...rest, exec: { ...plain, interactive, tty } }, request.stdio)
    },
    lost: Promise.race([
      container.ended.then(() => 'the container of the run has ended'),
      ...(network.lost ? [network.lost] : []),
    ]).then((why) => {
      throw new EgressError('SANDBOX_LOST', why)
    }),
  }
}

/** The guard of a layout. Other runs may work in the same workspace, or may have been killed there. */
async function guardOf({ guard }: Layout, { host, handle }: SandboxTools): Promise<WorkspaceGuard> {
  const texts = otherGuards(host, handle.record.id)
  if (texts.length === 0) return guard
  const { readGuard } = await import('./guard-record.ts')
  return beforeOthers(guard, texts.map(readGuard))
}

/** Variables that only a shell file can hold are in one that belongs to the user of the nodes. */
function assertReadable(shellFile: string, user: string, owner: string): void {
  const isRoot = /^(?:root|0)(?::|$)/.test(user)
  if (shellFile === '' || user === owner || isRoot) return
  throw new EgressError(
    'OPTION_INVALID',
    `post_create runs as ${user} and the nodes as ${owner}: a variable with a line break cannot be given to both; pin sandbox.user, or take it as a secret in a file`,
  )
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
  else await Promise.all([import('../proxy/egress-proxy.ts'), import('../door/place-door.ts')])
  return policy
}

async function findImage(
  driver: Driver,
  { image: name, inspected }: SandboxRequest,
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

function report(
  { user, hostState, notes }: Layout,
  request: SandboxRequest,
  emit: SandboxTools['emit'],
): void {
  for (const note of notes) request.say(note)
  if (hostState) {
    const mounts = hostState.mounts.map(({ source, target, readOnly }) => ({
      source,
      target,
      read_only: readOnly,
    }))
    const data = { mounts, skipped: hostState.skipped.map((one) => ({ ...one })) }
    emit({ type: 'sandbox_host_state_mounted', data })
  }
  if (user.remap) emit({ type: 'sandbox_user_remap', data: user.remap })
  if (user.mismatch) {
    request.say(`warning: user ${user.mismatch.user}: ${user.mismatch.message}`)
    emit({ type: 'sandbox_uid_mismatch_warning', data: user.mismatch })
  }
}

async function startContainer(
  request: SandboxRequest,
  { host, runtime, driver, handle, teardown }: SandboxTools,
  parts: { image: ImageInfo; layout: Layout; scratch: Scratch },
  signal: AbortSignal,
): Promise<RunningContainer> {
  const name = `iterion-${handle.record.id}`
  let container: RunningContainer | undefined
  teardown.add('container', async () => {
    // A start that was cut short may have made it all the same.
    return container ? container.stop() : driver.remove([name], REMOVE_TIMEOUT_MS)
  })
  container = await driver.start(
    {
      name,
      image: parts.image.id,
      labels: runLabels(handle.record.id, host.identity),
      network: request.hasPolicy && request.door !== 'advisory' ? 'none' : 'bridge',
      idFile: parts.scratch.idFile,
      seccompFile: parts.scratch.write('seccomp.json', seccompProfile(), 0o600),
      pidsLimit: request.pidsLimit,
      memoryBytes: request.memoryBytes,
      ...layoutSpec(parts.layout),
      // The first process is root's where that arms nobody else: commands of the sandbox's user cannot hold it up, and
      // `post_create` as root can do what root can.
      ...(DIFFERENCES[runtime.name].arms === 'root' && { user: '0:0' }),
    },
    signal,
  )
  return container
}

/** The variables of the run's commands, the last one wins. Nobody overrides those that lead to the proxy. */
function environmentOf(request: SandboxRequest, network: SandboxNetwork): Record<string, string> {
  return {
    ...request.block?.env,
    ...request.secrets.env,
    ...request.operatorEnv,
    ...(network.proxyUrl !== undefined && proxyVariables(network.proxyUrl)),
  }
}
