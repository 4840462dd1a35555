import type { RequestHead } from './request-head.ts'

/** A head that was read, and how many bytes it takes. */
export interface ConnectHead {
  readonly head: RequestHead
  readonly length: number
}

/**
 * A CONNECT as clients write it: one blank between the parts, an authority of plain characters, fields that are a token,
 * a colon, and printable bytes, every line ended by CR LF (RFC 9112 3, 5).
 */
const HEAD =
  /^CONNECT ([\w.:[\]-]+) HTTP\/(1\.[01])\r\n((?:[!#$%&'*+.^`|~\w-]+:[\t -~\x80-\xff]*\r\n)*)\r\n$/
/** What a body, or another protocol, is announced by. */
const FRAMING = /^(?:content-length|transfer-encoding|upgrade):/im
const FIELD = /([^:]+):[\t ]*(.*?)[\t ]*\r\n/gy

/**
 * Reads the head of a CONNECT that is all there and all plain. Everything else it leaves to Node's parser, by answering
 * `undefined`: so nothing gets in by it that would not get in by that one.
 *
 * @param maxBytes the longest head that is looked at
 */
export function readPlainConnect(bytes: Buffer, maxBytes: number): ConnectHead | undefined {
  if (bytes[0] !== 0x43) return undefined
  const text = bytes.toString('latin1', 0, Math.min(maxBytes, bytes.length))
  const end = text.indexOf('\r\n\r\n')
  const length = end + 4
  if (end === -1) return undefined
  const [, url, httpVersion, fields = ''] = HEAD.exec(text.slice(0, length)) ?? []
  if (url === undefined || httpVersion === undefined || FRAMING.test(fields)) return undefined
  const rawHeaders: string[] = []
  FIELD.lastIndex = 0
  for (let field = FIELD.exec(fields); field; field = FIELD.exec(fields)) {
    rawHeaders.push(field[1] ?? '', field[2] ?? '')
  }
  return { head: { method: 'CONNECT', url, httpVersion, rawHeaders }, length }
}
