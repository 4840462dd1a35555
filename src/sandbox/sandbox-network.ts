import { type Door, DOOR_HOST, DOOR_PORT, type DoorKind, lackOf } from '../door/door.ts'
import type { Policy } from '../policy/policy.ts'
import { createToken } from '../proxy/authenticate.ts'
import type { RunningContainer } from './driver.ts'
import { runLabels } from './labels.ts'
import { hostnameOf, RESOLVER_FILE, resolverFile } from './name-files.ts'
import type { RunRecord } from './run-record.ts'
import type { SandboxRequest, SandboxTools } from './sandbox.ts'
import type { Scratch } from './scratch.ts'
import type { Teardown } from './teardown.ts'

/** What an advisory run does not keep in. */
export const ADVISORY =
  'the container has a network: only variables point to the proxy, and a program that ignores them reaches everything'

/** Of `--resolve` beside an open network. */
export const RESOLVE_IN_VAIN =
  '--resolve answers nobody: the network is open, and no proxy is asked'

/** The proxy as a sealed sandbox sees it. */
export const DOOR_URL = `http://${DOOR_HOST}:${DOOR_PORT}`

/** True if the container has no network, so that a door is the one way out. */
export function isSealed({ hasPolicy, door }: Pick<SandboxRequest, 'hasPolicy' | 'door'>): boolean {
  return hasPolicy && door !== 'advisory'
}

/** How the sandbox reaches out. */
export interface SandboxNetwork {
  readonly kind: DoorKind | 'none'
  /** Undefined: past no proxy. */
  readonly proxyUrl: string | undefined
  /** Says why when the way out is gone; undefined: it goes with the container. */
  readonly lost?: Promise<string>
}

/**
 * Opens the one way out, and proves that it is one.
 *
 * @throws {EgressError} SANDBOX_DOOR_FAILED, or what the proxy and the engine throw
 */
export async function openNetwork(
  request: SandboxRequest,
  tools: SandboxTools,
  parts: { container: RunningContainer; scratch: Scratch; policy: Policy | undefined },
  signal: AbortSignal,
): Promise<SandboxNetwork> {
  const { container, scratch, policy } = parts
  const { emit, teardown } = tools
  if (request.hasPolicy !== (policy !== undefined)) throw new TypeError('a policy was lost')
  if (policy === undefined) return { kind: 'none', proxyUrl: undefined }
  if (request.door === 'advisory')
    return openAdvisory(request, tools, { container, policy }, signal)
  // What was bound before the policy was read names the usual address.
  const { stubAddress } = await import('../door/synthetic-names.ts')
  scratch.rewrite(RESOLVER_FILE, resolverFile(stubAddress(policy.door.syntheticRange)))
  const door = await openDoor(request, tools, { container, scratch, policy, teardown }, signal)
  emit({ type: 'sandbox_network_sealed', data: { door: door.kind, strength: 'container' } })
  const lacking = lackOf(door)
  if (lacking !== undefined) request.say(`warning: ${lacking}`)
  const lost = door.lost?.then(() => 'the door of the run has ended')
  return { kind: door.kind, proxyUrl: DOOR_URL, ...(lost && { lost }) }
}

/**
 * Places a door in a container that has no network, serves it by a policy, and proves that it is the only way out.
 *
 * @throws {EgressError} SANDBOX_DOOR_FAILED
 */
export async function openDoor(
  request: Pick<SandboxRequest, 'door' | 'sidecarImage'> &
    Partial<Pick<SandboxRequest, 'repository'>>,
  tools: Pick<SandboxTools, 'host' | 'emit' | 'runtime'> & {
    readonly handle: { readonly record: Pick<RunRecord, 'id'> }
  },
  parts: {
    container: RunningContainer
    scratch: Scratch
    policy: Policy
    /** What undoes it. */
    teardown: Teardown
  },
  signal: AbortSignal,
): Promise<Door> {
  const { container, scratch, policy, teardown } = parts
  const { host, emit } = tools
  const [{ createEgressProxy }, { planDoor }, { serveDoor, steady }, { SyntheticNames }] =
    await Promise.all([
      import('../proxy/egress-proxy.ts'),
      import('../door/door-plan.ts'),
      import('../door/serve-door.ts'),
      import('../door/synthetic-names.ts'),
    ])
  const plan = planDoor(policy)
  const now = steady(host.now)
  const names = new SyntheticNames(policy.door.syntheticRange, now)
  const proxy = createEgressProxy({
    policy,
    resolver: host.resolver,
    onEvent: emit,
    now: host.now,
    names,
  })
  teardown.add('proxy', () => proxy.close({ drainTimeoutMs: 0 }))
  const { placeDoor } = await import('../door/place-door.ts')
  const door = await placeDoor(request.door, {
    runtime: tools.runtime,
    containerId: container.id,
    directory: scratch.doorFolder,
    plan,
    user: host.user,
    labels: runLabels(tools.handle.record.id, host.identity),
    sidecarImage: request.sidecarImage,
    signal,
  })
  teardown.add('door', async () => {
    await door.close()
    return []
  })
  const hostname = hostnameOf(request.repository?.engineArgs ?? [])
  serveDoor(door, proxy, { plan, names, now, hostname })
  await door.probe()
  return door
}

/** A proxy that only variables point to. */
async function openAdvisory(
  request: SandboxRequest,
  { host, driver, emit, teardown }: SandboxTools,
  { container, policy }: { container: RunningContainer; policy: Policy },
  signal: AbortSignal,
): Promise<SandboxNetwork> {
  const { createEgressProxy } = await import('../proxy/egress-proxy.ts')
  const token = createToken()
  const proxy = createEgressProxy({
    policy,
    resolver: host.resolver,
    onEvent: emit,
    now: host.now,
    token,
  })
  teardown.add('proxy', () => proxy.close({ drainTimeoutMs: 0 }))
  const gateway = await driver.bridgeGateway(container.id, signal)
  const { port } = await proxy.listen({ host: gateway, port: 0 })
  request.say(`warning: ${ADVISORY}`)
  emit({ type: 'sandbox_network_advisory', data: { message: ADVISORY } })
  return { kind: 'advisory', proxyUrl: `http://agent:${token}@${gateway}:${port}` }
}
