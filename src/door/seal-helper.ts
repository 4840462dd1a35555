import type { ChildProcess } from 'node:child_process'
import { EgressError } from '../errors.ts'
import type { DoorSockets } from './door.ts'
import { HelperChannel } from './helper-channel.ts'
import { missingProgram, sealRemedy } from './seal-remedy.ts'
import type { WrapMessage, WrapOrder } from './wrap-helper.ts'

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
  const channel = new HelperChannel<WrapMessage>(child, sealFailed)
  let isEnded = false
  const fail = (error: EgressError) => {
    channel.fail(error)
    if (isEnded) return
    isEnded = true
    channel.close()
    // The first of the command's own processes dies with it, and takes the others along.
    child.kill('SIGKILL')
    if (child.connected) child.disconnect()
  }
  child.on('error', (cause: NodeJS.ErrnoException) => {
    const why = ['ENOENT', 'EACCES'].includes(cause.code ?? '')
      ? missingProgram(program)
      : cause.message
    fail(new EgressError('PROGRAM_MISSING', `no command can be sealed: ${why}`, { cause }))
  })
  // `close` comes when the channel has been read to its end.
  child.on('close', () => fail(sealFailed(channel.complaint || 'its helper ended early')))
  return {
    end: () => fail(sealFailed('it was given up')),
    order(order) {
      if (!isEnded) child.send(order, () => undefined)
    },
    next: () => channel.next(),
    opened: () => channel.opened(),
  }
}

/** The failure of a seal, with what is missing and how it is turned on where that is known. */
export function sealFailed(why: string): EgressError {
  const remedy = sealRemedy(why)
  const more = remedy === undefined ? '' : `\n${remedy}`
  return new EgressError('SANDBOX_DOOR_FAILED', `the seal around the command failed: ${why}${more}`)
}
