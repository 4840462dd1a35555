import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'

const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
const TEXT = 0x81
const CLOSE = 0x88

/** The answer to a `Sec-WebSocket-Key` (RFC 6455, section 4.2.2). */
export function acceptKey(key: string): string {
  return createHash('sha1').update(`${key}${GUID}`).digest('base64')
}

/** Accepts a WebSocket and sends each short text message back. */
export function echoWebSocket({ headers }: IncomingMessage, socket: Duplex): void {
  const key = acceptKey(String(headers['sec-websocket-key']))
  const fields = ['Upgrade: websocket', 'Connection: Upgrade', `Sec-WebSocket-Accept: ${key}`]
  socket.write(`HTTP/1.1 101 Switching Protocols\r\n${fields.join('\r\n')}\r\n\r\n`)
  socket.on('error', () => socket.destroy())
  socket.on('end', () => socket.end())
  let waiting = Buffer.alloc(0)
  socket.on('data', (chunk: Buffer) => {
    waiting = Buffer.concat([waiting, chunk])
    for (;;) {
      const length = (waiting[1] ?? 0) & 0x7f
      if (waiting.length < 6 + length) return
      const [kind = 0] = waiting
      const text = mask(waiting.subarray(6, 6 + length), waiting.subarray(2, 6))
      waiting = waiting.subarray(6 + length)
      socket.write(Buffer.concat([Buffer.from([kind, length]), text]))
      if (kind === CLOSE) socket.end()
    }
  })
}

/** A short text message as a client sends it. */
export function clientMessage(text: string): Buffer {
  const key = Buffer.from([1, 2, 3, 4])
  const bytes = Buffer.from(text)
  return Buffer.concat([Buffer.from([TEXT, 0x80 | bytes.length]), key, mask(bytes, key)])
}

/** The same message as a server sends it. */
export function serverMessage(text: string): Buffer {
  const bytes = Buffer.from(text)
  return Buffer.concat([Buffer.from([TEXT, bytes.length]), bytes])
}

function mask(bytes: Buffer, key: Buffer): Buffer {
  return Buffer.from(bytes.map((byte, i) => byte ^ (key[i % 4] ?? 0)))
}
