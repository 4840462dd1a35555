import { Socket as DatagramSocket } from 'node:dgram'
import { Server } from 'node:net'
import { EgressError } from '../errors.ts'
import { type ContainerNamespace, openContainerNamespace } from './container-namespace.ts'
import { prepareDoorServer } from './door-server.ts'
import type { Door, DoorServer, DoorSite, DoorSockets } from './door.ts'
import type { HelperMessage, HelperOrder } from './netns-helper.ts'
import { programFile } from './program-file.ts'
import { signalGroup, type Spawner } from './spawn.ts'

/** The descriptors under which the helper finds the namespaces: 0 to 2 are the standard ones, 3 is Node's channel. */
const NAMESPACE_DESCRIPTOR = 4
const USER_DESCRIPTOR = 5
const MAX_COMPLAINT = 4_096

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
      if (message.kind === 'fault') throw failed(message.why)
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
  next(): Promise<HelperMessage>
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
  const messages: HelperMessage[] = []
  const servers: DoorServer[] = []
  let datagrams: DatagramSocket | undefined
  let complaint = ''
  let fault: EgressError | undefined
  let isEnded = false
  let wake: () => void = () => undefined
  const end = () => {
    if (isEnded) return
    isEnded = true
    signal.removeEventListener('abort', onAbort)
    signalGroup(child, 'SIGKILL')
  }
  const fail = (error: EgressError) => {
    fault ??= error
    end()
    wake()
  }
  const onAbort = () => fail(failed('it was given up'))
  child.stderr?.on('data', (chunk: Buffer) => {
    complaint = (complaint + chunk.toString()).slice(-MAX_COMPLAINT)
  })
  child.on('message', (message: HelperMessage, handle: unknown) => {
    if (message.kind !== 'socket') {
      messages.push(message)
      wake()
    } else if (handle instanceof Server && message.use !== 'datagrams') {
      if (isEnded) handle.close()
      else servers.push({ server: prepareDoorServer(handle), use: message.use })
    } else if (handle instanceof DatagramSocket) {
      handle.on('error', () => undefined)
      if (isEnded) handle.close()
      else datagrams = handle
    }
  })
  child.on('error', (cause: NodeJS.ErrnoException) => {
    fail(
      new EgressError('PROGRAM_MISSING', `nsenter cannot be started: ${cause.message}`, { cause }),
    )
  })
  // `close` comes when the channel has been read to its end.
  child.on('close', () => fail(endedEarly(complaint.trim())))
  signal.addEventListener('abort', onAbort, { once: true })
  if (signal.aborted) onAbort()
  return {
    end,
    isOver: () => isEnded,
    order(what) {
      const order: HelperOrder = { do: what, plan }
      child.send(order, () => undefined)
    },
    next,
    async opened() {
      try {
        const message = await next()
        if (message.kind === 'fault') throw failed(message.why)
        const arrived = servers.length + (datagrams ? 1 : 0)
        if (message.kind !== 'opened' || message.sockets !== arrived || arrived === 0) {
          throw failed('not all sockets arrived')
        }
        return { servers, datagrams, taken: message.taken, missing: message.missing }
      } catch (error) {
        for (const { server } of servers) server.close()
        datagrams?.close()
        throw error
      }
    },
  }

  async function next(): Promise<HelperMessage> {
    for (;;) {
      const message = messages.shift()
      if (message !== undefined) return message
      if (fault !== undefined) throw fault
      await new Promise<void>((resolve) => (wake = resolve))
    }
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
