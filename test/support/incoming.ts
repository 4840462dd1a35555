import { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'

interface IncomingParts {
  readonly method?: string
  readonly url?: string
  readonly httpVersion?: string
  /** Field lines, `Name: value`. */
  readonly fields?: readonly string[]
  readonly statusCode?: number
}

/** A message as Node's parser would hand it over, as far as its head goes. */
export function incoming(parts: IncomingParts = {}): IncomingMessage {
  const { method = 'GET', url = '/', httpVersion = '1.1', fields = [], statusCode } = parts
  const rawHeaders = fields.flatMap((line) => {
    const colon = line.indexOf(':')
    return [line.slice(0, colon), line.slice(colon + 1).trim()]
  })
  const headers: Record<string, string> = {}
  for (let i = 0; i < rawHeaders.length; i += 2) {
    headers[rawHeaders[i]?.toLowerCase() ?? ''] ??= rawHeaders[i + 1] ?? ''
  }
  const httpVersionMajor = Number(httpVersion.split('.')[0])
  return {
    method,
    url,
    httpVersion,
    httpVersionMajor,
    rawHeaders,
    headers,
    statusCode,
  } as unknown as IncomingMessage
}

/** A request that came over a socket, its body still to be fed. */
export function requestOn(socket: Socket, isComplete = false): IncomingMessage {
  const request = new IncomingMessage(socket)
  request.method = 'POST'
  request.httpVersion = '1.1'
  request.httpVersionMajor = 1
  request.httpVersionMinor = 1
  request.complete = isComplete
  return request
}
