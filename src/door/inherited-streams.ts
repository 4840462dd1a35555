import { fstatSync, openSync, readdirSync, readFileSync, statfsSync } from 'node:fs'

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
 * @param first the lowest number
 * @returns streams as Node.js takes them, by number from `first`; empty: nothing has to be said
 * @throws {Error} if the number of what is not passed on is too high to be said
 */
export function inheritedStreams(first: number): (number | 'ignore')[] {
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

/** True for files, pipes, terminals, and devices that lead nowhere. */
export function mayPass(descriptor: number): boolean {
  try {
    const stats = fstatSync(descriptor)
    if (stats.isCharacterDevice()) return isHarmless(stats.rdev)
    return stats.isFIFO() || (stats.isFile() && isPlainFile(descriptor))
  } catch {
    return false
  }
}

/** As Linux writes a number of 12 bits of major and 20 of minor. */
function isHarmless(rdev: number): boolean {
  const major = (rdev >>> 8) & 0xfff
  const minor = (rdev & 0xff) | ((rdev >>> 12) & 0xfff00)
  return TERMINAL_MAJORS.has(major) || (major === MEMORY_MAJOR && MEMORY_MINORS.has(minor))
}

/** File systems of the system's own, whose files are processes, namespaces, queues, programs of the kernel and the like. */
const OF_THE_SYSTEM = new Set([
  0x9fa0, 0x6265_6572, 0x6e73_6673, 0x1980_0202, 0x0904_1934, 0x5049_4446, 0xcafe_4a11, 0x6462_6720,
  0x7472_6163, 0x0027_e0eb, 0x6367_7270, 0x7363_6673, 0x6573_5543, 0x6c6f_6f70, 0x6d61_7069,
])

function isPlainFile(descriptor: number): boolean {
  return !OF_THE_SYSTEM.has(statfsSync(`/proc/self/fd/${descriptor}`).type >>> 0)
}
