import { type Answer, decode, encode } from 'dns-packet'

// DNS messages (RFC 1035 4, EDNS of RFC 6891), as far as the stub resolver needs them. The lengths of a query are checked
// here in one pass before the package reads its question: it follows pointers, and a question has nothing to point to.
// An answer has the octets of the question as they came, and its record points to the name in them (RFC 1035 4.1.4).

/** Response codes (RFC 1035 4.1.1, RFC 6891 9). */
export const RCODE = {
  noError: 0,
  malformed: 1,
  serverFailure: 2,
  noSuchName: 3,
  notImplemented: 4,
  refused: 5,
  badVersion: 16,
} as const

/** A response code. */
export type Rcode = (typeof RCODE)[keyof typeof RCODE]

/** Types of record (RFC 1035 3.2.2, RFC 3596, RFC 6891, RFC 9460). */
export const TYPE = { A: 1, PTR: 12, AAAA: 28, OPT: 41, SVCB: 64, HTTPS: 65 } as const

/** The class of the internet. */
export const CLASS_IN = 1

/** The octets of a datagram that every client takes (RFC 1035 4.2.1). */
const PLAIN_DATAGRAM_BYTES = 512

/** The longest datagram that we send to who takes longer ones: what passes everywhere in one piece (DNS flag day 2020). */
const MAX_DATAGRAM_BYTES = 1_232

/** The longest message over a stream (RFC 1035 4.2.2). */
export const MAX_STREAM_BYTES = 65_535

/** What a query asks. */
export interface Question {
  /** The name as it was written, without its last dot; `.` is the root. Undefined if a dot stands within a label. */
  readonly name: string | undefined
  readonly type: number
  readonly class: number
}

/** A query, or a message that can be answered with a code alone. */
export interface DnsQuery {
  readonly id: number
  /** The second word of the header. */
  readonly flags: number
  /** What is wrong with it. */
  readonly fault: Rcode | undefined
  /** Undefined if there is none that can be read. */
  readonly question: (Question & { readonly bytes: Buffer }) | undefined
  /** The longest datagram that the client takes, in octets; undefined if it speaks no EDNS. */
  readonly ednsBytes: number | undefined
}

/** What is answered. */
export interface DnsReply {
  readonly rcode: Rcode
  /** One record of the name that was asked for. Without one there is no such name, or no data. */
  readonly record?: { readonly type: 'A' | 'AAAA' | 'PTR'; readonly data: string }
  /** How long the answer holds, in seconds. */
  readonly ttl: number
}

const HEADER_BYTES = 12
const MAX_NAME_BYTES = 255
const MAX_LABEL_BYTES = 63
const DOT = 0x2e

const QR = 0x8000
const OPCODE = 0x7800
const TC = 0x0200
const RD = 0x0100
const RA = 0x0080
const CD = 0x0010

/** Reads a message. Undefined: it is none, or an answer, and an answer to it could go round in circles. */
export function readQuery(bytes: Buffer): DnsQuery | undefined {
  if (bytes.length < HEADER_BYTES) return undefined
  const flags = bytes.readUInt16BE(2)
  if ((flags & QR) !== 0) return undefined
  const head = { id: bytes.readUInt16BE(0), flags, question: undefined, ednsBytes: undefined }
  if ((flags & OPCODE) !== 0) return { ...head, fault: RCODE.notImplemented }
  const malformed = { ...head, fault: RCODE.malformed }
  if (bytes.readUInt16BE(4) !== 1) return malformed
  const nameEnd = skipLabels(bytes, HEADER_BYTES)
  if (nameEnd === undefined || nameEnd + 4 > bytes.length) return malformed
  const opt = findOpt(bytes, nameEnd + 4)
  if (opt === 'malformed') return malformed
  return {
    ...head,
    fault: opt !== undefined && opt.version > 0 ? RCODE.badVersion : undefined,
    question: {
      name: readName(bytes, nameEnd),
      type: bytes.readUInt16BE(nameEnd),
      class: bytes.readUInt16BE(nameEnd + 2),
      bytes: Buffer.from(bytes.subarray(HEADER_BYTES, nameEnd + 4)),
    },
    ednsBytes: opt?.bytes,
  }
}

/** The end of a name without a pointer; undefined if it is not within the bytes, or too long (RFC 1035 3.1). */
function skipLabels(bytes: Buffer, start: number): number | undefined {
  let at = start
  while (at < bytes.length) {
    const length = bytes.readUInt8(at)
    at += 1 + length
    if (length > MAX_LABEL_BYTES || at - start > MAX_NAME_BYTES) return undefined
    if (length === 0) return at
  }
  return undefined
}

/** The name of the question, whose labels have been gone through. */
function readName(bytes: Buffer, nameEnd: number): string | undefined {
  for (let at = HEADER_BYTES; at < nameEnd; at += 1 + bytes.readUInt8(at)) {
    if (bytes.subarray(at + 1, at + 1 + bytes.readUInt8(at)).includes(DOT)) return undefined
  }
  const alone = Buffer.concat([
    writeHead(0, 0, 1, 0, 0, 0),
    bytes.subarray(HEADER_BYTES, nameEnd + 4),
  ])
  return decode(alone).questions?.[0]?.name
}

/** Goes through the records behind the question, each of 11 octets or more, for the one of EDNS. No pointer is followed. */
function findOpt(
  bytes: Buffer,
  start: number,
): { readonly bytes: number; readonly version: number } | 'malformed' | undefined {
  const before = bytes.readUInt16BE(6) + bytes.readUInt16BE(8)
  const count = before + bytes.readUInt16BE(10)
  let found: { bytes: number; version: number } | undefined
  let at = start
  for (let i = 0; i < count; i++) {
    const nameEnd = skipName(bytes, at)
    if (nameEnd === undefined || nameEnd + 10 > bytes.length) return 'malformed'
    const end = nameEnd + 10 + bytes.readUInt16BE(nameEnd + 8)
    if (end > bytes.length) return 'malformed'
    if (bytes.readUInt16BE(nameEnd) === TYPE.OPT) {
      // One, of the root, among the additional ones (RFC 6891 6.1.1).
      if (i < before || found !== undefined || nameEnd !== at + 1) return 'malformed'
      found = { bytes: bytes.readUInt16BE(nameEnd + 2), version: bytes.readUInt8(nameEnd + 5) }
    }
    at = end
  }
  return found
}

/** The end of a name that may end in a pointer. */
function skipName(bytes: Buffer, start: number): number | undefined {
  let at = start
  while (at < bytes.length && at - start < MAX_NAME_BYTES) {
    const length = bytes.readUInt8(at)
    if (length === 0) return at + 1
    if (length >= 0xc0) return at + 2
    if (length > MAX_LABEL_BYTES) return undefined
    at += 1 + length
  }
  return undefined
}

/** How long a datagram with the answer to a query may be. */
export function datagramBytes({ ednsBytes = 0 }: DnsQuery): number {
  return Math.max(PLAIN_DATAGRAM_BYTES, Math.min(ednsBytes, MAX_DATAGRAM_BYTES))
}

/** Writes an answer. One that is longer than it may be is cut to the question, with TC set (RFC 2181 9). */
export function writeAnswer(query: DnsQuery, reply: DnsReply, maxBytes: number): Buffer {
  const { rcode, record, ttl } = reply
  const { id, question } = query
  const opt = query.ednsBytes === undefined ? [] : [optRecord(rcode)]
  const flags = QR | (query.flags & (OPCODE | RD | CD)) | RA | (rcode & 0xf)
  const isNegative = record === undefined && (rcode === RCODE.noError || rcode === RCODE.noSuchName)
  const answers = record === undefined ? [] : [ofTheQuestion({ ...record, name: '.', ttl })]
  const authorities = isNegative ? [negativeRecord(ttl)] : []
  const questions = question === undefined ? [] : [question.bytes]
  const counts = [questions, answers, authorities, opt].map(({ length }) => length)
  const [q = 0, an = 0, ns = 0, ar = 0] = counts
  const whole = [
    writeHead(id, flags, q, an, ns, ar),
    ...questions,
    ...answers,
    ...authorities,
    ...opt,
  ]
  if (whole.reduce((sum, { length }) => sum + length, 0) <= maxBytes) return Buffer.concat(whole)
  return Buffer.concat([writeHead(id, flags | TC, q, 0, 0, ar), ...questions, ...opt])
}

function writeHead(...words: [number, number, number, number, number, number]): Buffer {
  const bytes = Buffer.alloc(HEADER_BYTES)
  words.forEach((word, i) => bytes.writeUInt16BE(word, i * 2))
  return bytes
}

/** A record as the package writes it, alone. */
function writeRecord(record: Answer): Buffer {
  return encode({ answers: [record] }).subarray(HEADER_BYTES)
}

/** A record whose owner, the root in one octet, is replaced by a pointer to the name in the question. */
function ofTheQuestion(record: Answer): Buffer {
  return Buffer.concat([Buffer.from([0xc0, HEADER_BYTES]), writeRecord(record).subarray(1)])
}

/** Says how long a "no" may be kept (RFC 2308 5). The zone is the root: the stub knows no other. */
function negativeRecord(ttl: number): Buffer {
  return writeRecord({
    type: 'SOA',
    name: '.',
    ttl,
    data: { mname: '.', rname: '.', minimum: ttl },
  })
}

function optRecord(rcode: Rcode): Buffer {
  return writeRecord({
    type: 'OPT',
    name: '.',
    udpPayloadSize: MAX_DATAGRAM_BYTES,
    extendedRcode: rcode >> 4,
    ednsVersion: 0,
    flags: 0,
    flag_do: false,
    options: [],
  })
}
