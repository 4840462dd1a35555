import type { Socket } from 'node:net'

/** Who is told what becomes of a socket. */
export interface SocketOwner {
  /** It has connected. */
  onConnect?(socket: Socket): void
  /** The other end has ended its side. */
  onEnd?(socket: Socket): void
  onError?(socket: Socket, error: NodeJS.ErrnoException): void
  onClose?(socket: Socket, hadError: boolean): void
}

const OWNER = Symbol('owner')
const NOBODY: SocketOwner = {}

type OwnedSocket = Socket & { [OWNER]?: SocketOwner }

/**
 * Hands a socket over, or to nobody: then it may fail unheard. A connection goes through several hands until it is a
 * tunnel, and listeners of each would be a part of what that costs.
 */
export function giveTo(socket: OwnedSocket, owner: SocketOwner | undefined): void {
  if (socket[OWNER] === undefined) {
    socket.on('connect', onConnect)
    socket.on('end', onEnd)
    socket.on('error', onError)
    socket.on('close', onClose)
  }
  socket[OWNER] = owner ?? NOBODY
}

function onConnect(this: OwnedSocket): void {
  this[OWNER]?.onConnect?.(this)
}

function onEnd(this: OwnedSocket): void {
  this[OWNER]?.onEnd?.(this)
}

function onError(this: OwnedSocket, error: NodeJS.ErrnoException): void {
  this[OWNER]?.onError?.(this, error)
}

function onClose(this: OwnedSocket, hadError: boolean): void {
  this[OWNER]?.onClose?.(this, hadError)
}
