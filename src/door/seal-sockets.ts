import { accessSync, constants, readdirSync, readFileSync, realpathSync, statSync } from 'node:fs'
import path from 'node:path'

// Names of files are bytes, and not every one is UTF-8: here each character of a text is one of them.

/** Where every user's programs put sockets. */
const TEMPORARY = ['/tmp', '/var/tmp']

/** How deep folders are searched: `/tmp/ssh-X/agent.1` is in the second, `~/.config/a-program/its.sock` in the third. */
const DEPTH = 2
const HOME_DEPTH = 3

/** How much is looked at. */
export interface SearchLimits {
  /** The most folders that are looked into from one, those that lie higher first. */
  readonly folders: number
  /** The most entries of each. */
  readonly entries: number
}

const LIMITS: SearchLimits = { folders: 1000, entries: 20_000 }

/** Full of files that are no sockets. */
const LEFT_OUT = new Set(['node_modules', '.git', '.cache'])

/** What was found. */
export interface FoundSockets {
  /** Sockets, where they really are. */
  readonly sockets: readonly string[]
  /** Folders whose files can be used by whoever knows their names, and not listed. */
  readonly blind: readonly string[]
  /** Folders of which, or below which, not all was looked at: there is too much. */
  readonly unsearched: readonly string[]
}

/** A text as bytes, each as one character. */
export function bytesOf(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1')
}

/** Bytes as a text; what is not UTF-8 in them is replaced. */
export function textOf(bytes: string): string {
  return Buffer.from(bytes, 'latin1').toString('utf8')
}

/** The words of `printf %b` for bytes. */
export function escapeBytes(bytes: string): string {
  const octal = (one: string) => `\\0${one.charCodeAt(0).toString(8).padStart(3, '0')}`
  return bytes.replace(/[^\w./-]/g, octal)
}

/**
 * Looks for sockets that have a name: those that the system lists, and all in the folders of those, in the folders of
 * temporary files, in folders that are given, and in the hidden folders of homes.
 *
 * @param limits default: 1,000 folders from each of these, 20,000 entries of a folder
 */
export function findSockets(
  folders: readonly string[],
  homes: readonly string[],
  limits: SearchLimits = LIMITS,
): FoundSockets {
  const named = namedSockets(readFileSync('/proc/self/net/unix', 'latin1'))
  const search = new SocketSearch(limits)
  for (const name of named) search.add(name)
  for (const folder of new Set(named.map((name) => path.dirname(name)))) search.look(folder, 1)
  for (const folder of folders) search.look(bytesOf(folder), DEPTH)
  for (const home of homes) search.look(bytesOf(home), HOME_DEPTH, true)
  for (const folder of TEMPORARY) search.look(folder, DEPTH)
  return {
    sockets: [...search.sockets],
    blind: [...search.blind],
    unsearched: [...search.unsearched],
  }
}

/**
 * The names of the sockets of a system.
 *
 * @param text its /proc/net/unix. A name that starts with `@` is of the namespace of its network, and not a file; one may
 * have line ends in it
 */
export function namedSockets(text: string): readonly string[] {
  const lines = text.split(/\n(?=[\da-f]{8,16}: [\da-f]{8} )/)
  const names = lines.map((line) => /^\S+: (?:\S+ +){6}(\/[^]*?)\n?$/.exec(line)?.[1])
  return [...new Set(names.filter((name) => name !== undefined))]
}

class SocketSearch {
  readonly sockets = new Set<string>()
  readonly blind = new Set<string>()
  readonly unsearched = new Set<string>()
  /** The folders of each folder that was looked into. */
  readonly #looked = new Map<string, readonly string[]>()
  readonly #limits: SearchLimits

  constructor(limits: SearchLimits) {
    this.#limits = limits
  }

  /** Takes a socket, if there is one that somebody here can reach: the command cannot otherwise either. */
  add(name: string): void {
    try {
      const place = realpathSync.native(Buffer.from(name, 'latin1'), 'buffer')
      if (statSync(place).isSocket()) this.sockets.add(place.toString('latin1'))
    } catch {
      // It is gone, or out of reach.
    }
  }

  /**
   * Looks into a folder, and into those below.
   *
   * @param depth 1: the folder alone
   * @param isHome true: of its own folders only the hidden ones
   */
  look(root: string, depth: number, isHome = false): void {
    if (root === '/') return
    let left = this.#limits.folders
    let level = [root]
    for (let at = 0; at < depth; at++) {
      const below: string[] = []
      for (const folder of level) {
        let names = this.#looked.get(folder)
        if (names === undefined) {
          if (left === 0) {
            this.unsearched.add(root)
            continue
          }
          left--
          names = this.#into(folder)
          this.#looked.set(folder, names)
        }
        const isOuter = isHome && at === 0
        for (const name of names) {
          if (!LEFT_OUT.has(name) && (!isOuter || name.startsWith('.')))
            below.push(`${folder}/${name}`)
        }
      }
      level = below
    }
  }

  /** Takes the sockets of a folder; answers the names of its folders. */
  #into(folder: string): string[] {
    const raw = Buffer.from(folder, 'latin1')
    const folders: string[] = []
    try {
      const entries = readdirSync(raw, { withFileTypes: true, encoding: 'buffer' })
      const most = this.#limits.entries
      if (entries.length > most) this.unsearched.add(folder)
      for (const entry of entries.slice(0, most)) {
        const name = entry.name.toString('latin1')
        if (entry.isSocket()) this.add(`${folder}/${name}`)
        else if (entry.isDirectory()) folders.push(name)
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EACCES' && mayEnter(raw))
        this.blind.add(folder)
    }
    return folders
  }
}

function mayEnter(folder: Buffer): boolean {
  try {
    accessSync(folder, constants.X_OK)
    return true
  } catch {
    return false
  }
}
