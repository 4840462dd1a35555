import { randomBytes } from 'node:crypto'
import { type AddressInfo, createServer } from 'node:net'
import { connect, type ConnectionOptions } from 'node:tls'

/** The first flight that Node's own TLS client sends. */
export function captureHello(options: ConnectionOptions = {}): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    const server = createServer((socket) => {
      socket.on('error', () => undefined)
      socket.on('data', (chunk: Buffer) => {
        chunks.push(chunk)
        const bytes = Buffer.concat(chunks)
        if (bytes.length < 5 || bytes.length < 5 + bytes.readUInt16BE(3)) return
        client.destroy()
        server.close()
        resolve(bytes)
      })
    })
    let client: ReturnType<typeof connect>
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo
      client = connect({ host: '127.0.0.1', port, rejectUnauthorized: false, ...options })
      client.on('error', () => undefined)
    })
  })
}

export type Extension = readonly [type: number, data: Buffer]

interface HelloParts {
  /** Undefined for a hello without server_name; latin1. */
  readonly serverName?: string | undefined
  readonly extensions?: readonly Extension[]
  /** Extensions that go before server_name. */
  readonly before?: readonly Extension[]
  /** No extension block at all, as in TLS 1.0. */
  readonly isBare?: boolean
  readonly sessionId?: Buffer
  readonly suites?: Buffer
  readonly compressions?: Buffer
  readonly version?: number
}

function vector(lengthBytes: 1 | 2 | 3, data: Buffer): Buffer {
  const length = Buffer.alloc(lengthBytes)
  length.writeUIntBE(data.length, 0, lengthBytes)
  return Buffer.concat([length, data])
}

function u16(value: number): Buffer {
  return Buffer.from([value >>> 8, value & 0xff])
}

/** The server_name extension for one name. */
export function serverNameExtension(name: string): Extension {
  const entry = Buffer.concat([Buffer.from([0]), vector(2, Buffer.from(name, 'latin1'))])
  return [0, vector(2, entry)]
}

/** The handshake message of a ClientHello, made by hand. */
export function helloMessage(parts: HelloParts = {}): Buffer {
  const { serverName, extensions = [], before = [], isBare = false } = parts
  const { sessionId = randomBytes(32), version = 0x0303 } = parts
  const { suites = Buffer.from([0x13, 0x01, 0x13, 0x02]), compressions = Buffer.from([0]) } = parts
  const named = serverName === undefined ? [] : [serverNameExtension(serverName)]
  const all = [...before, ...named, ...extensions].map(([type, data]) =>
    Buffer.concat([u16(type), vector(2, data)]),
  )
  const body = Buffer.concat([
    u16(version),
    randomBytes(32),
    vector(1, sessionId),
    vector(2, suites),
    vector(1, compressions),
    ...(isBare ? [] : [vector(2, Buffer.concat(all))]),
  ])
  return Buffer.concat([Buffer.from([1]), vector(3, body)])
}

/** TLS records of one type that carry these bytes, cut at so many bytes each. */
export function records(data: Buffer, size = 16_384, type = 22): Buffer {
  const parts: Buffer[] = []
  for (let at = 0; at < data.length; at += size) {
    const fragment = data.subarray(at, at + size)
    parts.push(Buffer.from([type, 3, 1]), vector(2, fragment))
  }
  return Buffer.concat(parts)
}

/** A whole first flight, made by hand. */
export function hello(serverName?: string, parts: HelloParts = {}): Buffer {
  return records(helloMessage({ ...parts, serverName }))
}

/** Encrypted client hello in its outer form (0xfe0d): suite, config id, a key and a payload that nobody can read. */
export function echExtension(): Extension {
  const outer = Buffer.from([0, 0, 1, 0, 1, 7])
  const data = [outer, vector(2, randomBytes(32)), vector(2, randomBytes(180))]
  return [0xfe0d, Buffer.concat(data)]
}

/** A GREASE extension (RFC 8701). */
export function greaseExtension(value = 0x1a1a): Extension {
  return [value, Buffer.from([0])]
}

/** A key share as large as those of post-quantum groups. */
export function largeKeyShare(bytes = 1_216): Extension {
  return [51, vector(2, Buffer.concat([u16(0x11ec), vector(2, randomBytes(bytes))]))]
}
