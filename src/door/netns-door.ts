import { EgressError } from '../errors.ts'
import { type ContainerNamespace, openContainerNamespace } from './container-namespace.ts'
import type { Door, DoorSite, DoorSockets } from './door.ts'
import { HelperChannel } from './helper-channel.ts'
import type { HelperMessage, HelperOrder } from './netns-helper.ts'
import { programFile } from './program-file.ts'
import { signalGroup, type Spawner } from './spawn.ts'

/** The descriptors under which the helper finds the namespaces: 0 to 2 are the standard ones, 3 is Node's channel. */
const NAMESPACE_DESCRIPTOR = 4
const USER_DESCRIPTOR = 5

/**
 * Places a door as root, or into a container of the caller's own engine: a helper enters the namespace, opens the sockets
 * and hands them over.
 *
 *     orchestrator ──spawn──▶ nsenter ──exec──▶ helper (in the namespace) ──listen──▶ 127.0.0.1:3128, and the plan's
 *     orchestrator ◀──the listening sockets, over Node's channel──── helper, which waits for the probe and ends
 *
 * @throws {EgressError} SANDBOX_DOOR_FAILED, or PROGRAM_MISSING if there is no nsenter. Its cause has the code EPERM or
 * EACCES if the caller may not enter.
 */
export async function placeNetnsDoor(site: DoorSite): Promise<Door> {
  const { runtime, containerId, user, signal } = site
  const namespace = await openContainerNamespace(runtime, containerId, signal, user.uid)
  const helper = startHelper(site, namespace)
  helper.order('open')
  try {
    return netnsDoor(site, namespace, helper, await helper.opened())
  } catch (error) {
    helper.end()
    namespace.close()
    throw error
  }
}

function netnsDoor(
  site: DoorSite,
  namespace: ContainerNamespace,
  first: Helper,
  sockets: DoorSockets,
): Door {
  let helper = first
  let isClosed = false
  return {
    ...sockets,
    kind: 'netns',
    containers: [],
    async probe() {
      if (isClosed) throw failed('it is closed')
      // The first helper is still there for the first probe, which saves a start.
      if (helper.isOver()) helper = startHelper(site, namespace)
      helper.order('probe')
      const message = await helper.next()
      helper.end()
      if (message.kind !== 'probed') throw failed('the probe did not end')
      if (message.problem !== undefined) throw failed(message.problem)
    },
    async close() {
      if (isClosed) return
      isClosed = true
      helper.end()
      for (const { server } of sockets.servers) server.close()
      sockets.datagrams?.close()
      namespace.close()
    },
  }
}

/** The process inside the namespace. */
interface Helper {
  /** Its next message. */
  next(): Promise<Exclude<HelperMessage, { readonly kind: 'socket' | 'fault' }>>
  /** All sockets. */
  opened(): Promise<DoorSockets>
  order(what: HelperOrder['do']): void
  isOver(): boolean
  /** Ends it. Sockets that nobody took are closed. */
  end(): void
}

function startHelper(site: DoorSite, namespace: ContainerNamespace): Helper {
  const { runtime } = site
  const { descriptor, userDescriptor } = namespace
  const args = [
    // The caller stays who they are: that is root inside, and may read what the helper is made of.
    ...(userDescriptor === undefined
      ? []
      : [`--user=/proc/self/fd/${USER_DESCRIPTOR}`, '--preserve-credentials']),
    `--net=/proc/self/fd/${NAMESPACE_DESCRIPTOR}`,
    '--',
    process.execPath,
    programFile('netns-helper'),
  ]
  const child = runtime.spawn('nsenter', args, {
    // Nothing of the caller's: NODE_OPTIONS of a stranger would run inside our own process.
    env: { PATH: withSystemPrograms(runtime.env['PATH']), LC_ALL: 'C' },
    stdio: [
      'ignore',
      'ignore',
      'pipe',
      'ipc',
      descriptor,
      ...(userDescriptor === undefined ? [] : [userDescriptor]),
    ],
    detached: true,
  })
  return helperOf(child, site)
}

/** Where the programs are that set up a network: not on everybody's PATH. */
function withSystemPrograms(path = ''): string {
  return [...path.split(':').filter((one) => one.startsWith('/')), '/usr/sbin', '/sbin'].join(':')
}

function helperOf(child: ReturnType<Spawner>, { signal, plan }: DoorSite): Helper {
  const channel = new HelperChannel<HelperMessage>(child, failed)
  let isEnded = false
  const end = () => {
    if (isEnded) return
    isEnded = true
    channel.close()
    signal.removeEventListener('abort', onAbort)
    signalGroup(child, 'SIGKILL')
  }
  const fail = (error: EgressError) => {
    end()
    channel.fail(error)
  }
  const onAbort = () => fail(failed('it was given up'))
  child.on('error', (cause: NodeJS.ErrnoException) => {
    fail(
      new EgressError('PROGRAM_MISSING', `nsenter cannot be started: ${cause.message}`, { cause }),
    )
  })
  // `close` comes when the channel has been read to its end.
  child.on('close', () => fail(endedEarly(channel.complaint)))
  signal.addEventListener('abort', onAbort, { once: true })
  if (signal.aborted) onAbort()
  return {
    end,
    isOver: () => isEnded,
    order(what) {
      const order: HelperOrder = { do: what, plan }
      child.send(order, () => undefined)
    },
    next: () => channel.next(),
    opened: () => channel.opened(),
  }
}

function endedEarly(complaint: string): EgressError {
  const code = /not permitted/i.test(complaint)
    ? 'EPERM'
    : /permission denied/i.test(complaint)
      ? 'EACCES'
      : undefined
  const why = complaint === '' ? 'the helper ended early' : complaint
  return failed(why, code && Object.assign(new Error(complaint), { code }))
}

function failed(why: string, cause?: unknown): EgressError {
  return new EgressError('SANDBOX_DOOR_FAILED', `the door inside the sandbox failed: ${why}`, {
    cause,
  })
}
