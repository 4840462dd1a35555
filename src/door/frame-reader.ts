const LENGTH_BYTES = 2

/**
 * Takes a stream apart into frames: two octets of length, most significant first, and as many octets (RFC 1035 4.2.2). What has come
 * is put together once for each frame, so that a stream of single octets costs no more than its length.
 */
export class FrameReader {
  #chunks: Buffer[] = []
  #bytes = 0

  push(chunk: Buffer): void {
    this.#chunks.push(chunk)
    this.#bytes += chunk.length
  }

  /** The length that the next frame has; undefined if it is not known yet. */
  nextLength(): number | undefined {
    if (this.#bytes < LENGTH_BYTES) return undefined
    if ((this.#chunks[0]?.length ?? 0) < LENGTH_BYTES) this.#join()
    return this.#chunks[0]?.readUInt16BE(0)
  }

  /** Takes out the next frame; undefined if not all of it has come. */
  next(): Buffer | undefined {
    const length = this.nextLength()
    if (length === undefined || this.#bytes < LENGTH_BYTES + length) return undefined
    const bytes = this.#join()
    const rest = bytes.subarray(LENGTH_BYTES + length)
    this.#chunks = rest.length === 0 ? [] : [rest]
    this.#bytes = rest.length
    return bytes.subarray(LENGTH_BYTES, LENGTH_BYTES + length)
  }

  #join(): Buffer {
    const [only] = this.#chunks
    const bytes = this.#chunks.length === 1 && only ? only : Buffer.concat(this.#chunks)
    this.#chunks = [bytes]
    return bytes
  }
}

/** Puts its length in front of a frame. */
export function writeFrame(frame: Buffer): Buffer {
  const length = Buffer.alloc(LENGTH_BYTES)
  length.writeUInt16BE(frame.length)
  return Buffer.concat([length, frame])
}
