import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { escapeControls } from '../errors.ts'
import type { Decision, DenyReason } from '../policy/decide.ts'
import { suggestRule } from '../policy/explain.ts'
import { formatHost } from '../policy/host.ts'
import type { Mode } from '../policy/policy.ts'
import {
  type BadTarget,
  formatTarget,
  isBadTarget,
  type Target,
  type Via,
} from '../policy/target.ts'
import { resetSocket } from './relay.ts'

/** How long a refused client may take to read its answer and go, in milliseconds. */
const LINGER_MS = 2_000
/** How much of what a refused client still sends is read and thrown away, in bytes. */
const LINGER_BYTES = 1024 * 1024
const MAX_PHRASE = 200
/** Statuses below 500 behind which a client is not heard any further. */
const CLOSING = new Set([400, 407, 431])
const MAX_HOST_BYTES = 256

/** A refusal: what is wrong, and about which target. */
export interface Refusal {
  readonly reason: DenyReason
  /** What went wrong, in words, without the target. */
  readonly detail: string
  readonly status: number
  readonly target: Target | BadTarget | undefined
  readonly via: Via
  /** The policy's decision, if it came that far. */
  readonly decision: Decision | undefined
  /** The mode of the policy that decided. */
  readonly mode: Mode | undefined
  readonly address: string | undefined
  readonly sni: string | undefined
}

type Needed = 'reason' | 'detail' | 'target' | 'via'

/** The target as it may be shown: escaped, and cut to 256 bytes. */
export function describeHost(target: Target | BadTarget | undefined): {
  host: string
  port: number
} {
  if (target === undefined) return { host: '', port: 0 }
  if (!isBadTarget(target)) return { host: formatHost(target.host), port: target.port }
  const printable = escapeControls(target.text).replace(
    /[^\u0020-\u007e]/gu,
    (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`,
  )
  return { host: printable.slice(0, MAX_HOST_BYTES), port: 0 }
}

/** Status and RFC 9209 error type of each reason. */
const WIRE: Readonly<Record<DenyReason, { readonly status: number; readonly error: string }>> = {
  'bad-target': { status: 400, error: 'http_request_error' },
  'host-mismatch': { status: 400, error: 'http_request_error' },
  'no-rule': { status: 403, error: 'http_request_denied' },
  excluded: { status: 403, error: 'http_request_denied' },
  port: { status: 403, error: 'http_request_denied' },
  expired: { status: 403, error: 'http_request_denied' },
  'ip-literal': { status: 403, error: 'http_request_denied' },
  'special-address': { status: 403, error: 'destination_ip_prohibited' },
  'metadata-address': { status: 403, error: 'destination_ip_prohibited' },
  'address-excluded': { status: 403, error: 'destination_ip_prohibited' },
  sni: { status: 403, error: 'http_request_denied' },
  'not-tls': { status: 403, error: 'http_request_denied' },
  auth: { status: 407, error: 'http_request_denied' },
  limit: { status: 503, error: 'connection_limit_reached' },
  draining: { status: 503, error: 'destination_unavailable' },
  internal: { status: 500, error: 'proxy_internal_error' },
  unresolvable: { status: 502, error: 'dns_error' },
  dial: { status: 502, error: 'destination_unavailable' },
  loop: { status: 508, error: 'proxy_loop_detected' },
}

/** Makes a refusal; the status follows from the reason unless it is given. */
export function refusal(parts: Pick<Refusal, Needed> & Partial<Refusal>): Refusal {
  const { reason, detail, target, via, decision, mode, address, sni } = parts
  const status = parts.status ?? WIRE[reason].status
  return { reason, detail, status, target, via, decision, mode, address, sni }
}

/** Why a policy denies, as a sentence about the target. */
export function denialSentence(decision: Decision, target: Target | BadTarget): string {
  if (isBadTarget(target)) return `bad target: ${target.bad}`
  const name = formatTarget(target)
  switch (decision.reason) {
    case 'no-rule':
      return `no rule allows ${name}`
    case 'excluded':
      return `a rule excludes ${name}`
    case 'port':
      return `port ${target.port} of ${formatHost(target.host)} is not allowed`
    case 'expired':
      return `the rule for ${name} has expired`
    case 'ip-literal':
      return `no rule allows the address ${name}`
    case 'special-address':
      return `${name} is not a public address`
    case 'metadata-address':
      return `${name} is a cloud metadata service`
    default:
      return `${decision.reason} ${name}`
  }
}

/** A refusal as it goes on the wire. */
export interface RefusalMessage {
  readonly status: number
  readonly phrase: string
  readonly headers: readonly (readonly [string, string])[]
  readonly body: string
}

/**
 * Says a refusal in the three places that a client may show: the reason phrase, the headers `X-Iterion-Reason` and
 * `Proxy-Status` (RFC 9209), and a short body, JSON if `accept` prefers it. The body ends with the rule that would
 * allow the target, never with the rules there are.
 */
export function renderRefusal(refused: Refusal, accept: string | undefined): RefusalMessage {
  const { reason, status, target, decision, mode } = refused
  const words = ascii(refused.detail)
  const phrase = phraseOf(refused)
  const rule = decision && target ? suggestRule(decision, target) : undefined
  const { host, port } = describeHost(target)
  const json = accept !== undefined && /\bapplication\/(?:[\w.-]+\+)?json\b/i.test(accept)
  const body = json
    ? // Clients that look into a body show its `error`: the sentence stands there.
      JSON.stringify({ error: phrase, reason, host, port, mode: mode ?? null, rule: rule ?? null })
    : `${phrase}\nreason: ${reason}\n${rule === undefined ? '' : `a rule that would allow it: ${rule}\n`}`
  const headers: [string, string][] = [
    ['Content-Type', json ? 'application/json' : 'text/plain; charset=utf-8'],
    ['Content-Length', String(Buffer.byteLength(body))],
    ['Cache-Control', 'no-store'],
    ['X-Iterion-Reason', reason],
    ['Proxy-Status', `iterion-egress; error=${wireError(refused)}; details="${quoted(words)}"`],
  ]
  if (status === 407) headers.push(['Proxy-Authenticate', 'Basic realm="iterion-egress"'])
  if (status === 503 || status === 429) headers.push(['Retry-After', '1'])
  return { status, phrase, headers, body }
}

/** The refusal in one line of ASCII. */
export function phraseOf({ status, detail }: Refusal): string {
  if (status === 407) return 'Proxy Authentication Required'
  const kind = status === 403 ? 'egress denied' : status < 500 ? 'egress refused' : 'egress failed'
  return `${kind}: ${ascii(detail)}`.slice(0, MAX_PHRASE)
}

function wireError({ reason, status }: Refusal): string {
  if (status === 504) return reason === 'unresolvable' ? 'dns_timeout' : 'connection_timeout'
  return WIRE[reason].error
}

function ascii(text: string): string {
  return text.replace(/[^\u0020-\u007e]/gu, '?')
}

/** The inside of an RFC 9651 string. */
function quoted(text: string): string {
  return text.slice(0, MAX_PHRASE).replace(/["\\]/g, (char) => `\\${char}`)
}

/**
 * Writes a refusal on a bare socket and ends it: the client has a deadline to read it, whatever it does meanwhile.
 *
 * @param method the request's: an answer to HEAD has no body
 */
export function refuseOnSocket(
  socket: Socket,
  refused: Refusal,
  accept?: string,
  method?: string,
): void {
  const { status, phrase, headers, body } = renderRefusal(refused, accept)
  const lines = [...headers, ['Connection', 'close'] as const].map(
    ([name, value]) => `${name}: ${value}\r\n`,
  )
  const content = method === 'HEAD' ? '' : body
  if (socket.writable) socket.end(`HTTP/1.1 ${status} ${phrase}\r\n${lines.join('')}\r\n${content}`)
  closeWithin(socket)
}

/**
 * Answers a request with a refusal. The connection stays open only where nothing is left to read and the client is not
 * at fault; an answer that has begun already breaks off.
 */
export function refuseOnResponse(
  request: IncomingMessage,
  response: ServerResponse,
  refused: Refusal,
): void {
  const { socket } = request
  if (response.headersSent || response.destroyed) {
    resetSocket(socket)
    return
  }
  const { accept } = request.headers
  const { status } = refused
  if (!request.complete || CLOSING.has(status) || status >= 500) {
    refuseOnSocket(socket, refused, accept, request.method)
    request.unpipe()
    request.resume()
    return
  }
  const { phrase, headers, body } = renderRefusal(refused, accept)
  response.writeHead(status, phrase, headers.flat())
  response.end(body)
}

/** Reads and forgets what still comes, up to a bound, so that the peer can read what was sent; then closes. */
export function closeWithin(socket: Socket, ms = LINGER_MS): void {
  if (socket.destroyed) return
  let seen = 0
  const timer = setTimeout(() => socket.destroy(), ms)
  socket.on('data', (chunk: Buffer) => {
    seen += chunk.length
    if (seen > LINGER_BYTES) socket.destroy()
  })
  socket.once('end', () => {
    if (socket.writableFinished) socket.destroy()
    else socket.once('finish', () => socket.destroy())
  })
  socket.once('close', () => clearTimeout(timer))
  socket.resume()
}

/** Reads and forgets the rest of a request, up to a bound, so that its client can read an answer; then calls `done`. */
export function forgetRest(request: IncomingMessage, done: () => void): void {
  let seen = 0
  const finish = () => {
    clearTimeout(timer)
    request.removeListener('data', onData)
    request.removeListener('close', finish)
    request.removeListener('end', finish)
    done()
  }
  const onData = (chunk: Buffer) => {
    seen += chunk.length
    if (seen > LINGER_BYTES) finish()
  }
  const timer = setTimeout(finish, LINGER_MS)
  request.unpipe()
  request.on('data', onData)
  request.once('end', finish)
  request.once('close', finish)
  request.resume()
}
