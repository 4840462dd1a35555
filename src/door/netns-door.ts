import { Server } from 'node:net'
import { EgressError } from '../errors.ts'
import { type ContainerNamespace, openContainerNamespace } from './container-namespace.ts'
import { prepareDoorServer } from './door-server.ts'
import type { Door, DoorSite } from './door.ts'
import type { HelperMessage } from './netns-helper.ts'
import { programFile } from './program-file.ts'
import { signalGroup, type Spawner } from './spawn.ts'

/** The descriptors under which the helper finds the namespaces: 0 to 2 are the standard ones, 3 is Node's channel. */
const NAMESPACE_DESCRIPTOR = 4
const USER_DESCRIPTOR = 5
const MAX_COMPLAINT = 4_096

/**
 * Places a door as root, or into a container of the caller's own engine: a helper enters the namespace, opens the socket
 * and hands it over.
 *
 *     orchestrator ──spawn──▶ nsenter ──exec──▶ helper (in the namespace) ──listen──▶ 127.0.0.1:3128
 *     orchestrator ◀──the listening socket, over Node's channel──── helper, which waits for the probe and ends
 *
 * @throws {EgressError} SANDBOX_DOOR_FAILED, or PROGRAM_MISSING if there is no nsenter. Its cause has the code EPERM or
 * EACCES if the caller may not enter.
 */
export async function placeNetnsDoor(site: DoorSite): Promise<Door> {
  const { runtime, containerId, user, signal } = site
  const namespace = await openContainerNamespace(runtime, containerId, signal, user.uid)
  const helper = startHelper(site, namespace, 'open')
  try {
    const message = await helper.next()
    const server = helper.server()
    if (message.kind !== 'socket' || server === undefined) {
      throw failed(message.kind === 'fault' ? message.why : 'the socket did not arrive')
    }
    return netnsDoor(site, namespace, helper, server)
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
  server: Server,
): Door {
  let helper = first
  let isClosed = false
  return {
    kind: 'netns',
    servers: [server],
    containers: [],
    async probe() {
      if (isClosed) throw failed('it is closed')
      // The first helper is still there for the first probe, which saves a start.
      if (helper.isOver()) helper = startHelper(site, namespace, 'wait')
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
      server.close()
      namespace.close()
    },
  }
}

/** The process inside the namespace. */
interface Helper {
  /** Its next message. */
  next(): Promise<HelperMessage>
  /** The socket, once its message has come. */
  server(): Server | undefined
  order(order: 'probe'): void
  isOver(): boolean
  /** Ends it. A socket that nobody took is closed. */
  end(): void
}

function startHelper(site: DoorSite, namespace: ContainerNamespace, task: 'open' | 'wait'): Helper {
  const { runtime, signal } = site
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
    task,
  ]
  const child = runtime.spawn('nsenter', args, {
    // Nothing of the caller's: NODE_OPTIONS of a stranger would run inside our own process.
    env: { PATH: runtime.env['PATH'], LC_ALL: 'C' },
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
  return helperOf(child, signal)
}

function helperOf(child: ReturnType<Spawner>, signal: AbortSignal): Helper {
  const messages: HelperMessage[] = []
  let server: Server | undefined
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
  child.on('message', (message, handle) => {
    if (handle instanceof Server) {
      if (isEnded || server !== undefined) handle.close()
      else server = prepareDoorServer(handle)
    }
    messages.push(message as HelperMessage)
    wake()
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
    server: () => server,
    isOver: () => isEnded,
    order(order) {
      child.send(order, () => undefined)
    },
    async next() {
      for (;;) {
        const message = messages.shift()
        if (message !== undefined) return message
        if (fault !== undefined) throw fault
        await new Promise<void>((resolve) => (wake = resolve))
      }
    },
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
