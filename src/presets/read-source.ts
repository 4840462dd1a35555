import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs'
import { EgressError } from '../errors.ts'

/** The largest policy or preset file: room for more than 200,000 rules. */
export const MAX_SOURCE_BYTES = 16 * 1024 * 1024

/**
 * Reads a policy or preset file.
 *
 * @throws {EgressError} FILE_UNREADABLE when it is missing, no regular file, larger than 16 MiB, or not UTF-8
 */
export function readSource(path: string): string {
  const bytes = readRegularFile(path)
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch (error) {
    const offset = firstInvalidByte(bytes)
    throw new EgressError('FILE_UNREADABLE', `${path}: not UTF-8 at byte ${offset}; save the file as UTF-8`, {
      cause: error,
    })
  }
}

function readRegularFile(path: string): Buffer {
  let descriptor: number | undefined
  try {
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
    const status = fstatSync(descriptor)
    if (status.isDirectory()) throw new EgressError('FILE_UNREADABLE', `${path}: is a directory`)
    if (!status.isFile()) throw new EgressError('FILE_UNREADABLE', `${path}: is not a regular file`)
    if (status.size > MAX_SOURCE_BYTES) {
      throw new EgressError(
        'FILE_UNREADABLE',
        `${path}: has ${status.size} bytes; the most is ${MAX_SOURCE_BYTES} (16 MiB)`,
      )
    }
    return readFileSync(descriptor)
  } catch (error) {
    if (error instanceof EgressError) throw error
    throw new EgressError('FILE_UNREADABLE', `${path}: ${describe(error)}`, { cause: error })
  } finally {
    if (descriptor !== undefined) closeSync(descriptor)
  }
}

function describe(error: unknown): string {
  const code = (error as NodeJS.ErrnoException).code
  if (code === 'ENOENT') return 'no such file'
  if (code === 'EACCES' || code === 'EPERM') return 'no permission to read it'
  if (code === 'EISDIR') return 'is a directory'
  return error instanceof Error ? error.message : String(error)
}

/** Where the first byte is that cannot be UTF-8: the length of the longest valid beginning. */
function firstInvalidByte(bytes: Buffer): number {
  let low = 0
  let high = bytes.length
  while (low < high) {
    const middle = (low + high + 1) >>> 1
    if (isUtf8Beginning(bytes.subarray(0, middle))) low = middle
    else high = middle - 1
  }
  return low
}

function isUtf8Beginning(bytes: Buffer): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: true })
    return true
  } catch {
    return false
  }
}
