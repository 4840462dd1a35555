import { OPTION_NAMES } from '../mount-text.ts'

/** A mount of a devcontainer.json, read and not yet judged. */
export interface MountEntry {
  readonly type: 'bind' | 'volume' | 'tmpfs'
  /** Empty for a volume without a name and for tmpfs. */
  readonly source: string
  readonly target: string
  readonly readOnly: boolean
}

/** Why a mount cannot be read. */
export interface MountEntryFault {
  readonly fault: string
}

const TRUTH = /^(?:true|false|1|0)$/i

/** How a mount is cached on a desktop, and whether a volume is filled: nothing that changes what may be reached. */
const HARMLESS: Readonly<Record<string, RegExp>> = {
  consistency: /^(?:cached|delegated|consistent|default)$/i,
  'volume-nocopy': TRUTH,
}

/**
 * Reads a mount as docker's `--mount` does: fields of one line of CSV, names and types without regard to case. What docker
 * would read in two ways, or leave to the last field, is not read.
 */
export function parseMountEntry(written: unknown): MountEntry | MountEntryFault {
  if (typeof written === 'string') {
    const fields = csvFields(written)
    return fields === undefined ? { fault: 'a quote in it is not closed' } : fromFields(fields)
  }
  if (typeof written !== 'object' || written === null || Array.isArray(written)) {
    return { fault: 'a mount is a text or an object' }
  }
  const fields: [name: string, value: string][] = []
  for (const [name, value] of Object.entries(written)) {
    if (typeof value !== 'string' && typeof value !== 'boolean') {
      return { fault: `${JSON.stringify(name)} is neither a text nor true or false` }
    }
    fields.push([name, String(value)])
  }
  return fromFields(fields)
}

function fromFields(
  fields: readonly (readonly [name: string, value: string | undefined])[],
): MountEntry | MountEntryFault {
  const found = new Map<string, string>()
  for (const [written, value] of fields) {
    const lower = written.toLowerCase()
    const name = OPTION_NAMES.get(lower)
    const harmless = Object.hasOwn(HARMLESS, lower) ? HARMLESS[lower] : undefined
    if (name === undefined && harmless?.test(value ?? 'true')) continue
    if (name === undefined) return { fault: `its option ${JSON.stringify(written)} is not taken` }
    if (found.has(name)) return { fault: `its ${name} is given twice` }
    if (value === undefined && name !== 'readonly') return { fault: `its ${name} has no value` }
    found.set(name, value ?? 'true')
  }
  // Docker's own default.
  const type = (found.get('type') ?? 'volume').toLowerCase()
  const source = found.get('source') ?? ''
  const target = found.get('target') ?? ''
  const readOnly = found.get('readonly') ?? 'false'
  if (type !== 'bind' && type !== 'volume' && type !== 'tmpfs') {
    return { fault: `its type ${JSON.stringify(type)} is not taken` }
  }
  if (target === '') return { fault: 'it has no target' }
  if (type === 'bind' && source === '') return { fault: 'it has no source' }
  if (!TRUTH.test(readOnly)) return { fault: 'readonly is true or false' }
  return { type, source, target, readOnly: /^(?:true|1)$/i.test(readOnly) }
}

/**
 * One line of CSV: a field in quotes holds commas, and a doubled quote is one. Undefined if a quote stays open, or stands
 * anywhere else.
 */
function csvFields(text: string): [name: string, value: string | undefined][] | undefined {
  const fields: [string, string | undefined][] = []
  let rest = text
  for (;;) {
    const found = /^(?:"((?:[^"]|"")*)"|([^",]*))(?:,|$)/.exec(rest)
    if (found === null) return undefined
    const [whole, quoted, bare = ''] = found
    const field = quoted?.replaceAll('""', '"') ?? bare
    const equals = field.indexOf('=')
    fields.push(
      equals === -1 ? [field, undefined] : [field.slice(0, equals), field.slice(equals + 1)],
    )
    if (!whole.endsWith(',')) return fields
    rest = rest.slice(whole.length)
  }
}
