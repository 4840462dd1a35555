import type { Socket } from 'node:net'
import type { BadTarget, Target } from '../policy/target.ts'
import { admit, type ProxyCore, recordRefusal } from './core.ts'
import { MessageReader } from './message-reader.ts'
import { closeWithin, phraseOf, type Refusal, refusal } from './refuse.ts'
import { NO_HEAD, type RequestTarget } from './request-head.ts'
import * as socks from './socks.ts'
import { openTunnel, type ServeHttp } from './tunnel.ts'

const GATEWAY_TIMEOUT = 504

/**
 * A client of SOCKS 5, from its first byte: methods, a password if a token is wanted, a request. Then it is a tunnel like
 * any other.
 *
 * @param first what it has sent so far
 */
export async function serveSocks(
  core: ProxyCore,
  client: Socket,
  first: Buffer,
  serveHttp: ServeHttp,
): Promise<void> {
  const reader = new MessageReader(client, first, core.limits.headTimeoutMs)
  let request: socks.SocksRequest | undefined
  let rest: Buffer
  try {
    request = await readRequest(core, client, reader)
  } finally {
    rest = reader.release()
  }
  if (request === undefined) return
  if (rest.length > 0) client.unshift(rest)
  await serveRequest(core, client, request, serveHttp)
}

/** Talks to the client until it has asked for something; undefined if it was refused before. */
async function readRequest(
  core: ProxyCore,
  client: Socket,
  reader: MessageReader,
): Promise<socks.SocksRequest | undefined> {
  const greeting = await reader.next(socks.readMethods)
  if (greeting.kind === 'bad') {
    return refuseMessage(core, client, greeting.why, socks.METHODS_REFUSED)
  }
  const method = methodFor(core, greeting.message)
  if (method === undefined) return refuseClient(core, client, socks.METHODS_REFUSED)
  client.write(socks.methodAnswer(method))

  if (method === socks.PASSWORD) {
    const password = await reader.next(socks.readPassword)
    if (password.kind === 'bad') {
      return refuseMessage(core, client, password.why, socks.PASSWORD_REFUSED)
    }
    if (!isRight(core, password.message)) return refuseClient(core, client, socks.PASSWORD_REFUSED)
    client.write(socks.PASSWORD_ACCEPTED)
  }

  const request = await reader.next(socks.readRequest)
  if (request.kind === 'message') return request.message
  return refuseMessage(core, client, request.why, socks.requestAnswer(socks.GENERAL_FAILURE))
}

/** Answers and closes when our own code failed. */
export function refuseSocks(client: Socket): void {
  answerAndClose(client, socks.requestAnswer(socks.GENERAL_FAILURE))
}

async function serveRequest(
  core: ProxyCore,
  client: Socket,
  request: socks.SocksRequest,
  serveHttp: ServeHttp,
): Promise<void> {
  const target = targetOf(request)
  const wrong = unsupported(request)
  if (wrong !== undefined) {
    const detail = `bad request: ${wrong.why}`
    recordRefusal(core, refusal({ reason: 'bad-target', detail, target, via: 'socks' }))
    answerAndClose(client, socks.requestAnswer(wrong.reply))
    return
  }
  const admitted = admit(core, NO_HEAD, {
    via: 'socks',
    // Its password was looked at.
    isTrusted: true,
    read: () => readTarget(target),
  })
  await openTunnel(core, client, admitted, {
    serveHttp,
    establish: () => void client.write(socks.requestAnswer(socks.GRANTED)),
    refuse(refused) {
      recordRefusal(core, refused)
      answerAndClose(client, answerFor(refused))
    },
  })
}

/** The method to go on with; undefined if the client offers none that will do. */
function methodFor(core: ProxyCore, offered: readonly number[]): number | undefined {
  if (core.authenticator === undefined && offered.includes(socks.NO_AUTHENTICATION)) {
    return socks.NO_AUTHENTICATION
  }
  return offered.includes(socks.PASSWORD) ? socks.PASSWORD : undefined
}

/** The password is the token, whoever the user is. Without a token to show, any will do. */
function isRight({ authenticator }: ProxyCore, password: string): boolean {
  const field = `Basic ${Buffer.from(`:${password}`).toString('base64')}`
  return authenticator?.([field]) ?? true
}

function unsupported(request: socks.SocksRequest): { why: string; reply: number } | undefined {
  if (request.command !== socks.CONNECT) {
    return { why: 'of SOCKS, only CONNECT is served', reply: socks.NO_SUCH_COMMAND }
  }
  if (request.host !== undefined) return undefined
  return { why: 'there is no such type of address', reply: socks.NO_SUCH_ADDRESS_TYPE }
}

function targetOf({ host, port, text }: socks.SocksRequest): Target | BadTarget {
  const via = 'socks' as const
  if (host === undefined) return { bad: 'there is no such type of address', text, via }
  if (host.kind === 'bad') return { bad: host.why, text, via }
  if (port === 0) return { bad: 'the port is not 1 to 65535', text, via }
  return { scheme: 'tcp', host, port, via }
}

function readTarget(target: Target | BadTarget) {
  return 'bad' in target
    ? ({ kind: 'fault', reason: 'bad-target', why: target.bad, target } as const)
    : ({ kind: 'target', target, path: '' } satisfies RequestTarget)
}

/**
 * The refusal of a request. Whoever connects to the port of SSH is a client of SSH: it is let through to a few words in
 * its own protocol, which it prints.
 */
function answerFor(refused: Refusal): Buffer {
  const { reason, status, target } = refused
  if (target !== undefined && 'port' in target && target.port === socks.SSH_PORT) {
    return Buffer.concat([socks.requestAnswer(socks.GRANTED), socks.sshRefusal(phraseOf(refused))])
  }
  return socks.requestAnswer(socks.replyFor(reason, status === GATEWAY_TIMEOUT))
}

/** The client does not show the token. */
function refuseClient(core: ProxyCore, client: Socket, answer: Buffer): undefined {
  const detail = 'a valid proxy token is needed'
  recordRefusal(core, refusal({ reason: 'auth', detail, target: undefined, via: 'socks' }))
  answerAndClose(client, answer)
}

function refuseMessage(core: ProxyCore, client: Socket, why: string, answer: Buffer): undefined {
  if (client.destroyed) return
  const detail = `bad request: ${why}`
  recordRefusal(core, refusal({ reason: 'bad-target', detail, target: undefined, via: 'socks' }))
  answerAndClose(client, answer)
}

function answerAndClose(client: Socket, answer: Buffer): void {
  if (client.writable) client.end(answer)
  closeWithin(client)
}
