import { fstatSync, openSync, readdirSync, readFileSync, readlinkSync, type Stats } from 'node:fs'

/** The bit of a descriptor that is closed when a program is started. */
const CLOSE_ON_EXEC = 0o2000000
/** The most descriptors that are looked at. */
const MAX_DESCRIPTORS = 1_024

/** Devices that lead nowhere, by major number; of memory these minors: null, zero, full, random, urandom. */
const MEMORY_MAJOR = 1
const MEMORY_MINORS = new Set([3, 5, 7, 8, 9])
const TERMINAL_MAJORS = new Set([4, 5, 136, 137, 138, 139, 140, 141, 142, 143])

/**
 * Streams for a program that is started from here, so that it has the files, pipes and terminals that this process was
 * started with, and nothing else: a connected socket leads out of every namespace, a folder shows what is covered inside,
 * and other kinds stand for processes or devices. Node.js itself passes none of the first sixteen descriptors on.
 *
 * @param standard the numbers of the standard streams, which are passed on whatever they are but folders
 * @param first the lowest number of the others
 * @returns streams as Node.js takes them, by number from `first`; empty: nothing has to be said
 * @throws {Error} if the number of what is not passed on is too high to be said; if a standard stream is a folder
 */
export function inheritedStreams(
  standard: readonly [input: number, output: number, errors: number],
  first: number,
): (number | 'ignore')[] {
  if (standard.some((one) => statOf(one)?.isDirectory())) {
    throw new Error('a standard stream is a folder, which leads past what is covered')
  }
  const kept = readdirSync('/proc/self/fd')
    .map(Number)
    .filter((one) => one >= first && isInherited(one) && !mayPass(one))
  if (kept.length === 0) return []
  const last = Math.max(...kept)
  if (last >= MAX_DESCRIPTORS) {
    throw new Error(`descriptor ${last} is no file, pipe or terminal, and is not closed`)
  }
  const nothing = openSync('/dev/null', 'r+')
  // What is ignored stays as it is.
  return Array.from({ length: last - first + 1 }, (_, i) =>
    kept.includes(first + i) ? nothing : 'ignore',
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

function statOf(descriptor: number): Stats | undefined {
  try {
    return fstatSync(descriptor)
  } catch {
    return undefined
  }
}

function mayPass(descriptor: number): boolean {
  const stats = statOf(descriptor)
  if (stats === undefined) return false
  if (stats.isCharacterDevice()) return isHarmless(stats.rdev)
  return stats.isFIFO() || (stats.isFile() && isPlainFile(descriptor))
}

/** As Linux writes a number of 12 bits of major and 20 of minor. */
function isHarmless(rdev: number): boolean {
  const major = (rdev >>> 8) & 0xfff
  const minor = (rdev & 0xff) | ((rdev >>> 12) & 0xfff00)
  return TERMINAL_MAJORS.has(major) || (major === MEMORY_MAJOR && MEMORY_MINORS.has(minor))
}

/** False for what the system shows as a file: namespaces, and the processes outside. */
function isPlainFile(descriptor: number): boolean {
  const path = readlinkSync(`/proc/self/fd/${descriptor}`)
  return path.startsWith('/') && !/^\/(?:proc|sys)\//.test(path)
}
