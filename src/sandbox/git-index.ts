/** Where a reader is in an index; undefined wherever one is returned means that it cannot be read. */
interface Entries {
  readonly names: readonly string[]
  /** Where each entry starts, in bytes. */
  readonly starts: readonly number[]
  /** For each entry, how much of the name before it is the beginning of its own. */
  readonly shared: readonly number[]
  /** Where the extensions start, in bytes. */
  readonly end: number
}

const HEADER_BYTES = 12
/** Times, device, inode, mode, owner, size: what an entry has before its object id. */
const STAT_BYTES = 40
const EXTENDED = 0x4000
const NAME_MASK = 0x0fff
/** The longest path of Linux, in bytes. It also bounds what names that share their beginning can grow to. */
const MAX_NAME_BYTES = 4096
/** What HFS+ leaves out of a name, in UTF-8, one character a byte. */
const IGNORED_BY_HFS =
  /\u00e2\u0080[\u008c-\u008f\u00aa-\u00ae]|\u00e2\u0081[\u00aa-\u00af]|\u00ef\u00bb\u00bf/g
/** NTFS drops dots and spaces at the end, and takes what follows a colon for a stream. */
const GIT_FOLDER = /^(?:\.git|git~1)[. ]*(?::.*)?$/is

/**
 * Whether a git index has an entry that git would write into a git folder, or outside of the tree: git looks at names
 * when it adds them and not when it reads them. An index that this reader does not understand has one, too. Versions 2,
 * 3 and 4. Of a split index this is one part; the other, `sharedindex.*`, is to be looked at as well.
 *
 * @param idBytes How long an object id is, in bytes: 20 for SHA-1, 32 for SHA-256.
 */
export function hasOddEntry(bytes: Buffer, idBytes: number): boolean {
  const entries = readEntries(bytes, idBytes)
  if (entries === undefined || entries.names.some(isOddName)) return true
  return !areExtensionsPlain(bytes, idBytes, entries)
}

/**
 * How long the object ids of a repository are, in bytes, by its configuration; undefined if that is not written as git
 * writes it.
 */
export function objectIdBytes(config: string): number | undefined {
  const lines = config.split('\n').filter((line) => /objectformat/i.test(line))
  const formats = new Set(lines.map((line) => /^\s*objectformat = (sha1|sha256)$/i.exec(line)?.[1]))
  if (formats.size === 0) return 20
  if (formats.size > 1) return undefined
  return formats.has('sha1') ? 20 : formats.has('sha256') ? 32 : undefined
}

function isOddName(name: string): boolean {
  // The entries of a split index that replace one of the other file have no name.
  if (name === '') return false
  const parts = name.split('/')
  // A folder of a sparse index ends with a slash.
  if (parts.length > 1 && parts.at(-1) === '') parts.pop()
  if (parts.some((part) => part === '' || part === '.' || part === '..')) return true
  return name
    .replaceAll(IGNORED_BY_HFS, '')
    .split(/[/\\]/)
    .some((part) => GIT_FOLDER.test(part))
}

function readEntries(bytes: Buffer, idBytes: number): Entries | undefined {
  if (bytes.length < HEADER_BYTES + idBytes || !bytes.subarray(0, 4).equals(Buffer.from('DIRC'))) {
    return undefined
  }
  const version = bytes.readUInt32BE(4)
  if (version < 2 || version > 4) return undefined
  const count = bytes.readUInt32BE(8)
  const names: string[] = []
  const starts: number[] = []
  const shared: number[] = []
  const limit = bytes.length - idBytes
  let at = HEADER_BYTES
  let last = ''
  for (let index = 0; index < count; index += 1) {
    const flagsAt = at + STAT_BYTES + idBytes
    if (flagsAt + 4 > limit) return undefined
    const flags = bytes.readUInt16BE(flagsAt)
    const isExtended = (flags & EXTENDED) !== 0
    if (isExtended && version === 2) return undefined
    const afterFlags = flagsAt + (isExtended ? 4 : 2)
    const prefix =
      version === 4 ? readPrefix(bytes, afterFlags, last) : { text: '', at: afterFlags }
    if (prefix === undefined) return undefined
    const end = bytes.indexOf(0, prefix.at)
    if (end === -1 || end >= limit) return undefined
    if (end - prefix.at + prefix.text.length > MAX_NAME_BYTES) return undefined
    last = prefix.text + bytes.toString('latin1', prefix.at, end)
    // Git goes by the length. A name that ends before it is not written by git.
    if (Math.min(last.length, NAME_MASK) !== (flags & NAME_MASK)) return undefined
    names.push(last)
    starts.push(at)
    shared.push(prefix.text.length)
    // Before version 4 one to eight zeros follow a name, so that each entry is a multiple of eight long.
    at = version === 4 ? end + 1 : at + Math.floor((end - at + 8) / 8) * 8
    if (at > limit) return undefined
  }
  return { names, starts, shared, end: at }
}

/** What an entry of version 4 takes over of the name before it: all but as many bytes as a number says. */
function readPrefix(
  bytes: Buffer,
  start: number,
  last: string,
): { readonly text: string; readonly at: number } | undefined {
  let at = start
  let byte = bytes[at] ?? 0
  let dropped = byte & 127
  while (byte >= 128) {
    at += 1
    byte = bytes[at] ?? 0
    dropped = (dropped + 1) * 128 + (byte & 127)
    if (dropped > last.length) return undefined
  }
  if (dropped > last.length) return undefined
  return { text: last.slice(0, last.length - dropped), at: at + 1 }
}

/** Whether the extensions follow one another to the end, and lead git to no other entries than were read. */
function areExtensionsPlain(bytes: Buffer, idBytes: number, entries: Entries): boolean {
  const limit = bytes.length - idBytes
  // Git looks for this one at its place from the end, whatever is around it, and starts with the extensions there.
  const endOfEntries = limit - idBytes - 12
  if (
    endOfEntries >= HEADER_BYTES &&
    bytes.toString('latin1', endOfEntries, endOfEntries + 4) === 'EOIE' &&
    bytes.readUInt32BE(endOfEntries + 8) !== entries.end
  ) {
    return false
  }
  let { end: at } = entries
  while (at + 8 <= limit) {
    const name = bytes.toString('latin1', at, at + 4)
    const start = at + 8
    at = start + bytes.readUInt32BE(at + 4)
    if (at > limit) return false
    const content = bytes.subarray(start, at)
    if (name === 'IEOT' && !isPlainTable(content, entries)) return false
    if (name === 'REUC' && hasOddConflict(content, idBytes)) return false
  }
  return at === limit
}

/** Whether a table of blocks, by which several threads read an index, has the entries that one thread reads. */
function isPlainTable(content: Buffer, entries: Entries): boolean {
  if (content.length % 8 !== 4) return false
  let index = 0
  for (let at = 4; at < content.length; at += 8) {
    // A block knows no name before it.
    if (content.readUInt32BE(at) !== entries.starts[index] || entries.shared[index] !== 0) {
      return false
    }
    index += content.readUInt32BE(at + 4)
  }
  return index === entries.names.length
}

/** Whether a resolved conflict, which git can make entries of again, has an odd name. */
function hasOddConflict(content: Buffer, idBytes: number): boolean {
  let at = 0
  const next = () => {
    const end = content.indexOf(0, at)
    if (end === -1) return undefined
    const text = content.toString('latin1', at, end)
    at = end + 1
    return text
  }
  while (at < content.length) {
    const name = next()
    if (name === undefined || name === '' || isOddName(name)) return true
    const modes = [next(), next(), next()]
    if (modes.some((mode) => mode === undefined || !/^[0-7]+$/.test(mode))) return true
    at += modes.filter((mode) => /[1-7]/.test(mode ?? '')).length * idBytes
  }
  return at !== content.length
}
