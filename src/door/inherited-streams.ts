import { openSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'

/** The bit of a descriptor that is closed when a program is started. */
const CLOSE_ON_EXEC = 0o2000000
/** The most descriptors that are looked at. */
const MAX_DESCRIPTORS = 1_024

/**
 * Streams for a program that is started from here, so that it has what this process was started with, but no socket: one
 * that is connected leads out of every namespace. Node.js itself passes none of the first sixteen descriptors on.
 *
 * @param first the lowest number
 * @returns streams as Node.js takes them, by number from `first`; empty: nothing has to be said
 * @throws {Error} if the number of a socket is too high to be said
 */
export function inheritedStreams(first: number): (number | 'ignore')[] {
  const sockets = readdirSync('/proc/self/fd')
    .map(Number)
    .filter((one) => one >= first && isInherited(one) && isSocket(one))
  if (sockets.length === 0) return []
  const last = Math.max(...sockets)
  if (last >= MAX_DESCRIPTORS) throw new Error(`descriptor ${last} is a socket, and is not closed`)
  const nothing = openSync('/dev/null', 'r+')
  // What is ignored stays as it is.
  return Array.from({ length: last - first + 1 }, (_, i) =>
    sockets.includes(first + i) ? nothing : 'ignore',
  )
}

function isInherited(descriptor: number): boolean {
  try {
    const text = readFileSync(`/proc/self/fdinfo/${descriptor}`, 'utf8')
    const flags = /^flags:\s*([0-7]+)$/m.exec(text)?.[1] ?? ''
    return (Number.parseInt(flags, 8) & CLOSE_ON_EXEC) === 0
  } catch {
    // It was that of the list.
    return false
  }
}

function isSocket(descriptor: number): boolean {
  try {
    return readlinkSync(`/proc/self/fd/${descriptor}`).startsWith('socket:')
  } catch {
    return false
  }
}
