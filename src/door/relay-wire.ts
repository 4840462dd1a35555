import { isIP } from 'node:net'

// What the relay inside a sandbox and the proxy outside say to each other over their unix socket. Both ends import this
// file, so it needs nothing but Node.js.
//
// Every connection begins with a preamble of fixed length. One connection, the first, is the control connection: lines
// of text both ways, and its end is the end of the relay. One carries the datagrams for the resolver, in frames: two octets
// of length and the datagram; each is answered by one frame, which may be empty. Every other one carries one connection of
// the sandbox.

/** Where the folder of the door is inside the relay's container, and the socket in that folder. */
export const RELAY_FOLDER = '/door'
export const SOCKET_NAME = 'door.sock'

/** Length of a preamble, in bytes. */
export const PREAMBLE_BYTES = 56

/** Connections that a relay carries at a time. */
export const MAX_RELAYED = 1_024

/** The longest line on a control connection, in characters. */
const MAX_LINE = 1_024

const MAGIC = 0x49_45
const VERSION = 1
const CONTROL = 0
const CARRIED = 1
const FRAMED = 2
/** Where the text of the address starts: behind magic (2), version (1), kind (1), id (4), port (2), length (1). */
const TEXT_START = 11

/** How a connection over the unix socket begins. */
export type Preamble =
  | { readonly kind: 'control' }
  | { readonly kind: 'framed' }
  | {
      readonly kind: 'carried'
      /** A number of the relay's choice, under which control lines speak of the connection. */
      readonly id: number
      /** Where the client in the sandbox connected to, before any rule of the system changed the port. */
      readonly address: string
      readonly port: number
    }

/** Writes a preamble. */
export function encodePreamble(preamble: Preamble): Buffer {
  const bytes = Buffer.alloc(PREAMBLE_BYTES)
  bytes.writeUInt16BE(MAGIC, 0)
  bytes.writeUInt8(VERSION, 2)
  if (preamble.kind === 'control') return bytes
  bytes.writeUInt8(preamble.kind === 'framed' ? FRAMED : CARRIED, 3)
  if (preamble.kind === 'framed') return bytes
  bytes.writeUInt32BE(preamble.id, 4)
  bytes.writeUInt16BE(preamble.port, 8)
  bytes.writeUInt8(preamble.address.length, 10)
  bytes.write(preamble.address, TEXT_START, 'latin1')
  return bytes
}

/** Reads a preamble; undefined if the bytes are none. */
export function decodePreamble(bytes: Buffer): Preamble | undefined {
  if (bytes.length !== PREAMBLE_BYTES) return undefined
  if (bytes.readUInt16BE(0) !== MAGIC || bytes.readUInt8(2) !== VERSION) return undefined
  const kind = bytes.readUInt8(3)
  if (kind === CONTROL || kind === FRAMED) {
    const isPlain = bytes.subarray(4).every((byte) => byte === 0)
    return isPlain ? { kind: kind === CONTROL ? 'control' : 'framed' } : undefined
  }
  const textEnd = TEXT_START + bytes.readUInt8(10)
  const address = bytes.toString('latin1', TEXT_START, textEnd)
  const port = bytes.readUInt16BE(8)
  const isWhole = textEnd <= PREAMBLE_BYTES && bytes.subarray(textEnd).every((byte) => byte === 0)
  if (kind !== CARRIED || !isWhole || isIP(address) === 0 || port === 0) return undefined
  return { kind: 'carried', id: bytes.readUInt32BE(4), address, port }
}

/** A line of the relay. */
export type RelayLine =
  /** The door is open. A text says why it takes the ports of the plan from the sandbox's own servers; empty: it does not. */
  | { readonly kind: 'listening'; readonly text: string }
  /** It cannot be opened. */
  | { readonly kind: 'fault'; readonly text: string }
  /** The probe is done; an empty text means that the door is the one way out. */
  | { readonly kind: 'probed'; readonly text: string }
  /** The client of a connection has reset it. */
  | { readonly kind: 'reset'; readonly id: number }

/** A line for the relay. */
export type RelayOrder =
  | { readonly kind: 'probe' }
  /** The client of a connection is to be reset. */
  | { readonly kind: 'reset'; readonly id: number }
  /** The proxy has let go of a connection: a carrier itself shows that it ended, and not that nothing more is read. */
  | { readonly kind: 'closed'; readonly id: number }

/** Writes a line, its end included. */
export function formatLine(line: RelayLine | RelayOrder): string {
  switch (line.kind) {
    case 'probe':
      return `${line.kind}\n`
    case 'reset':
    case 'closed':
      return `${line.kind} ${line.id}\n`
    default:
      return `${line.kind} ${line.text.replace(/\s+/g, ' ').slice(0, MAX_LINE / 2)}\n`
  }
}

/** Reads a line without its end; undefined if it is none. */
export function parseLine(line: string): RelayLine | RelayOrder | undefined {
  if (line === 'probe') return { kind: line }
  const [, word, rest = ''] = /^(reset|closed|listening|fault|probed) (.*)$/.exec(line) ?? []
  if (word === 'reset' || word === 'closed')
    return /^\d{1,10}$/.test(rest) ? { kind: word, id: Number(rest) } : undefined
  return word === 'listening' || word === 'fault' || word === 'probed'
    ? { kind: word, text: rest }
    : undefined
}

/** Cuts a stream of text into lines. */
export class LineReader {
  #rest = ''

  /** The lines that are whole now; undefined if one is too long, and then the stream is no use any more. */
  push(chunk: Buffer): string[] | undefined {
    const lines = (this.#rest + chunk.toString('utf8')).split('\n')
    this.#rest = lines.pop() ?? ''
    return [...lines, this.#rest].some((line) => line.length > MAX_LINE) ? undefined : lines
  }
}
