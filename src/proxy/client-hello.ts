/** What the beginning of a TLS stream says (RFC 8446 4.1.2, RFC 6066 3). */
export type ClientHello =
  | { readonly kind: 'more' }
  | { readonly kind: 'malformed'; readonly why: string }
  | {
      readonly kind: 'hello'
      /** The server name as it stands in the hello; undefined if there is none. */
      readonly serverName: string | undefined
      /** True if encrypted client hello (or its greased stand-in) is offered. */
      readonly hasEch: boolean
    }

const RECORD_HEADER = 5
const RANDOM_BYTES = 32
const MAX_RECORD = 16_384
const HANDSHAKE = 22
const CLIENT_HELLO = 1
const EXTENSION_SERVER_NAME = 0
const EXTENSION_ECH = 0xfe0d

const MORE: ClientHello = { kind: 'more' }

function malformed(why: string): ClientHello {
  return { kind: 'malformed', why }
}

/**
 * Reads the ClientHello at the start of a stream, over as many records as it takes. What is behind it is not looked at.
 * Every length has to fit exactly: a hello that two readers could read differently is malformed. It is called for each
 * segment again, so what it costs per record has to be next to nothing.
 */
export function parseClientHello(bytes: Buffer): ClientHello {
  let have = 0
  let wanted = 4
  for (let at = 0; ;) {
    if (bytes.length > at && bytes[at] !== HANDSHAKE) return malformed('no handshake record')
    if (bytes.length > at + 1 && bytes[at + 1] !== 3) return malformed('no TLS version')
    if (bytes.length < at + RECORD_HEADER) return MORE
    const length = bytes.readUInt16BE(at + 3)
    if (length === 0 || length > MAX_RECORD) return malformed('record length')
    const isStart = have < 4
    have += Math.min(length, bytes.length - at - RECORD_HEADER)
    if (isStart) {
      const start = unwrapRecords(bytes, 4)
      if (start.length > 0 && start[0] !== CLIENT_HELLO) return malformed('not a ClientHello')
      if (start.length === 4) wanted = 4 + start.readUIntBE(1, 3)
    }
    if (have >= wanted) return readHello(unwrapRecords(bytes, wanted).subarray(4))
    at += RECORD_HEADER + length
  }
}

/** What the records carry: so many bytes, or as many as there are. */
function unwrapRecords(bytes: Buffer, wanted: number): Buffer {
  const parts: Buffer[] = []
  let have = 0
  const first = RECORD_HEADER + bytes.readUInt16BE(3)
  // The usual hello lies in one record.
  if (first >= RECORD_HEADER + wanted && bytes.length >= RECORD_HEADER + wanted)
    return bytes.subarray(RECORD_HEADER, RECORD_HEADER + wanted)
  for (let at = 0; have < wanted && at + RECORD_HEADER < bytes.length;) {
    const end = at + RECORD_HEADER + bytes.readUInt16BE(at + 3)
    const fragment = bytes.subarray(at + RECORD_HEADER, end)
    parts.push(fragment)
    have += fragment.length
    at = end
  }
  return Buffer.concat(parts).subarray(0, wanted)
}

/** A cursor over length-prefixed fields; `undefined` where the bytes end too soon. */
class Reader {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length
  }

  /** How many bytes lie behind. */
  get at(): number {
    return this.#at
  }

  /** A reader of the bytes from there to here. */
  from(start: number): Reader {
    return new Reader(this.#bytes.subarray(start, this.#at))
  }

  take(length: number): Buffer | undefined {
    if (this.#at + length > this.#bytes.length) return undefined
    this.#at += length
    return this.#bytes.subarray(this.#at - length, this.#at)
  }

  number(bytes: 1 | 2): number | undefined {
    const high = this.#bytes[this.#at]
    if (bytes === 1) {
      this.#at++
      return high
    }
    const low = this.#bytes[this.#at + 1]
    this.#at += 2
    return high === undefined || low === undefined ? undefined : high * 256 + low
  }

  /** Goes past so many bytes; false if there are fewer. */
  skip(length: number | undefined): boolean {
    if (length === undefined || this.#at + length > this.#bytes.length) return false
    this.#at += length
    return true
  }

  /** A vector with a length of that many bytes in front. */
  vector(lengthBytes: 1 | 2): Buffer | undefined {
    const length = this.number(lengthBytes)
    return length === undefined ? undefined : this.take(length)
  }
}

function readHello(body: Buffer): ClientHello {
  const reader = new Reader(body)
  const version = reader.number(2)
  if (version === undefined || version >>> 8 !== 3) return malformed('hello version')
  const hasRandom = reader.skip(RANDOM_BYTES)
  const sessionId = reader.number(1) ?? Infinity
  if (!hasRandom || sessionId > 32 || !reader.skip(sessionId)) return malformed('hello ends early')
  const suites = reader.number(2)
  if (!reader.skip(suites)) return malformed('hello ends early')
  const compressions = reader.number(1)
  if (!reader.skip(compressions)) return malformed('hello ends early')
  if (suites === 0 || (suites ?? 0) % 2 === 1 || compressions === 0)
    return malformed('hello fields')
  if (reader.isAtEnd) return { kind: 'hello', serverName: undefined, hasEch: false }
  const extensions = reader.vector(2)
  if (!extensions || !reader.isAtEnd) return malformed('extensions length')
  return readExtensions(new Reader(extensions))
}

function readExtensions(reader: Reader): ClientHello {
  const seen = new Set<number>()
  let serverName: string | undefined
  while (!reader.isAtEnd) {
    const type = reader.number(2)
    const length = reader.number(2)
    const start = reader.at
    if (type === undefined || !reader.skip(length)) return malformed('extension ends early')
    if (seen.has(type)) return malformed('an extension is there twice')
    seen.add(type)
    if (type !== EXTENSION_SERVER_NAME) continue
    serverName = readServerName(reader.from(start))
    if (serverName === undefined) return malformed('server_name')
  }
  return { kind: 'hello', serverName, hasEch: seen.has(EXTENSION_ECH) }
}

/** The one host_name of the list; more than one, or another type, is not what RFC 6066 allows. */
function readServerName(reader: Reader): string | undefined {
  const list = reader.vector(2)
  if (!list || !reader.isAtEnd) return undefined
  const entry = new Reader(list)
  const type = entry.number(1)
  const name = entry.vector(2)
  if (type !== 0 || !name || name.length === 0 || !entry.isAtEnd) return undefined
  return name.toString('latin1')
}
