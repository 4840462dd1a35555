import type { ChildProcess } from 'node:child_process'
import { Socket as DatagramSocket } from 'node:dgram'
import { Server } from 'node:net'
import { EgressError } from '../errors.ts'
import type { DoorServer, DoorSockets } from './door.ts'
import { prepareDoorServer } from './door-server.ts'
import { missingProgram, sealRemedy } from './seal-remedy.ts'
import type { WrapMessage, WrapOrder } from './wrap-helper.ts'

const MAX_COMPLAINT = 4_096

/** What it says that is not a socket. */
type Said = Exclude<WrapMessage, { readonly kind: 'socket' | 'fault' }>

/** The process in the outer namespaces of a seal, as its parent has it. */
export interface SealHelper {
  /** Its next message. @throws {EgressError} when it tells of a fault, or has ended */
  next(): Promise<Said>
  /** All sockets of the door. @throws {EgressError} SANDBOX_DOOR_FAILED, PROGRAM_MISSING */
  opened(): Promise<DoorSockets>
  order(order: WrapOrder): void
  /** Ends it, and with it all that it started. Sockets that nobody took are closed. */
  end(): void
}

/**
 * Follows a helper.
 *
 * @param program what was started
 */
export function sealHelperOf(child: ChildProcess, program: string): SealHelper {
  const messages: Exclude<WrapMessage, { readonly kind: 'socket' }>[] = []
  const servers: DoorServer[] = []
  let datagrams: DatagramSocket | undefined
  let complaint = ''
  let fault: EgressError | undefined
  let isEnded = false
  let wake: () => void = () => undefined
  const fail = (error: EgressError) => {
    fault ??= error
    wake()
    if (isEnded) return
    isEnded = true
    // The first of the command's own processes dies with it, and takes the others along.
    child.kill('SIGKILL')
    if (child.connected) child.disconnect()
  }
  child.stderr?.on('data', (chunk: Buffer) => {
    complaint = (complaint + chunk.toString()).slice(-MAX_COMPLAINT)
  })
  child.on('message', (message: WrapMessage, handle: unknown) => {
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
    const why = cause.code === 'ENOENT' ? missingProgram(program) : cause.message
    fail(new EgressError('PROGRAM_MISSING', `no command can be sealed: ${why}`, { cause }))
  })
  // `close` comes when the channel has been read to its end.
  child.on('close', () => fail(sealFailed(complaint.trim() || 'its helper ended early')))
  return {
    end: () => fail(sealFailed('it was given up')),
    order(order) {
      if (!isEnded) child.send(order, () => undefined)
    },
    next,
    async opened() {
      try {
        const message = await next()
        const arrived = servers.length + (datagrams ? 1 : 0)
        if (message.kind !== 'opened' || message.sockets !== arrived || arrived === 0) {
          throw sealFailed('not all sockets arrived')
        }
        return { servers, datagrams, taken: message.taken, missing: message.missing }
      } catch (error) {
        for (const { server } of servers) server.close()
        datagrams?.close()
        throw error
      }
    },
  }

  async function next(): Promise<Said> {
    for (;;) {
      const message = messages.shift()
      if (message?.kind === 'fault') throw sealFailed(message.why)
      if (message !== undefined) return message
      if (fault !== undefined) throw fault
      await new Promise<void>((resolve) => (wake = resolve))
    }
  }
}

/** The failure of a seal, with what is missing and how it is turned on where that is known. */
export function sealFailed(why: string): EgressError {
  const remedy = sealRemedy(why)
  const more = remedy === undefined ? '' : `\n${remedy}`
  return new EgressError('SANDBOX_DOOR_FAILED', `the seal around the command failed: ${why}${more}`)
}
