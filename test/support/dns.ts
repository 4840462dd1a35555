import { decode, type DecodedPacket } from 'dns-packet'

/** What a query is made of. */
export interface QueryParts {
  readonly name: string
  readonly type?: number
  readonly class?: number
  readonly id?: number
  readonly flags?: number
  /** The size that is offered by EDNS; without it there is none. */
  readonly edns?: number
  readonly ednsVersion?: number
}

/** The labels of a name as they go over the wire. */
export function labelsOf(name: string): Buffer {
  const labels = name === '.' ? [] : name.split('.')
  const parts = labels.map((label) => Buffer.concat([Buffer.of(label.length), Buffer.from(label)]))
  return Buffer.concat([...parts, Buffer.of(0)])
}

/** Big-endian words of 16 bits. */
export function words(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 2)
  values.forEach((value, i) => bytes.writeUInt16BE(value, i * 2))
  return bytes
}

/** A query, written by hand. */
export function queryOf(parts: QueryParts): Buffer {
  const { name, type = 1, class: asked = 1, id = 0x1234, flags = 0x0100, edns } = parts
  const opt =
    edns === undefined ? [] : [Buffer.of(0), words(41, edns, parts.ednsVersion ?? 0, 0, 0)]
  return Buffer.concat([
    words(id, flags, 1, 0, 0, opt.length / 2),
    labelsOf(name),
    words(type, asked),
    ...opt,
  ])
}

/** What is looked at of an answer. */
export interface AnswerParts {
  readonly id: number
  readonly rcode: number
  /** The flags without the code. */
  readonly flags: number
  readonly isCut: boolean
  /** `TYPE data` of each record. */
  readonly answers: readonly string[]
  readonly packet: DecodedPacket
}

/** Reads an answer. */
export function readAnswer(bytes: Buffer | undefined): AnswerParts {
  if (bytes === undefined) throw new Error('nothing was answered')
  const packet = decode(bytes)
  const flags = bytes.readUInt16BE(2)
  return {
    id: bytes.readUInt16BE(0),
    rcode: flags & 0xf,
    flags: flags & 0xfff0,
    isCut: packet.flag_tc,
    answers: (packet.answers ?? []).map(
      (one) => `${one.type} ${'data' in one && typeof one.data === 'string' ? one.data : ''}`,
    ),
    packet,
  }
}

/** A name of exactly so many octets of text. */
export function longName(octets: number): string {
  const labels: string[] = []
  for (let left = octets; left > 0; left -= 64) labels.push('a'.repeat(Math.min(63, left)))
  return labels.join('.')
}
