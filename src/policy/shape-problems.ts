import type { z } from 'zod'
import type { ErrorCode } from '../errors.ts'
import { nearWords } from './near.ts'
import type { YamlPart } from './yaml-source.ts'

/** Keys that a later version gives a meaning; until then a file with them would not do what it says. */
const RESERVED_KEYS = new Set(['report', 'upstream', 'reload', 'learn'])

type Path = readonly PropertyKey[]

/** How the problems of one kind of file are told. */
export interface ShapeDialect {
  readonly code: ErrorCode
  /** What is said about an unknown key that somebody may have had a reason to write. */
  readonly explainKey: (path: Path, key: string) => string | undefined
  /** What may stand where several kinds of value may. */
  readonly unionHint: (path: Path) => string
  /** The right spelling of a map that was meant to be a text. */
  readonly spell: (value: unknown) => string | undefined
}

const POLICY_DIALECT: ShapeDialect = {
  code: 'POLICY_SHAPE',
  explainKey: (_, key) =>
    RESERVED_KEYS.has(key)
      ? `the key ${JSON.stringify(key)} is reserved for a later version`
      : undefined,
  unionHint: (path) =>
    path.includes('ports')
      ? 'a port is a number from 1 to 65535, a range "LO-HI" in quotes, or "*"'
      : 'a rule is a pattern in quotes or a map with the key host',
  spell: hostAsKey,
}

/**
 * Checks a value against a schema and reports every problem of its shape. Answers the value if there is none.
 * `knownKeys` lists what may stand where an unknown key was found.
 */
export function checkShape<T>(
  source: YamlPart,
  schema: z.ZodType<T>,
  value: unknown,
  knownKeys: (path: Path) => readonly string[],
  dialect: ShapeDialect = POLICY_DIALECT,
): T | undefined {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const report = createReporter(source, value, knownKeys, dialect)
  for (const issue of result.error.issues) report(issue, [])
  return undefined
}

type Issue = z.core.$ZodIssue

function createReporter(
  source: YamlPart,
  root: unknown,
  knownKeys: (path: Path) => readonly string[],
  dialect: ShapeDialect,
) {
  const { code } = dialect
  const nameOf = (path: Path) => describePath([...source.base, ...path])
  const reportUnknownKey = (path: Path, key: string) => {
    const near = nearWords(key, knownKeys(path))[0]
    const hint = near === undefined ? '' : `; did you mean ${near}?`
    const place = source.base.length + path.length > 0 ? ` in ${nameOf(path)}` : ''
    const message =
      dialect.explainKey(path, key) ?? `unknown key ${JSON.stringify(key)}${place}${hint}`
    source.reportKey(code, path, key, message)
  }
  const reportUnion = (issue: Issue & { code: 'invalid_union' }, path: Path) => {
    const value = valueAt(root, path)
    const meant = dialect.spell(value)
    if (meant !== undefined) {
      source.report(code, path, `${nameOf(path)} has the host as a key`, JSON.stringify(meant))
      return
    }
    const branch = issue.errors.find((list) => !list.some(isOtherKind))
    if (branch && typeof value === 'object' && value !== null) {
      for (const one of branch) report(one, path)
      return
    }
    source.report(
      code,
      path,
      `${nameOf(path)} ${value === undefined ? 'is missing' : kindOf(value)}; ${dialect.unionHint(path)}`,
    )
  }
  const report = (issue: Issue, prefix: Path): void => {
    const path = [...prefix, ...issue.path]
    if (issue.code === 'unrecognized_keys') {
      for (const key of issue.keys) reportUnknownKey(path, key)
      return
    }
    if (issue.code === 'invalid_union') {
      reportUnion(issue, path)
      return
    }
    source.report(code, path, `${nameOf(path)} ${expectation(issue, valueAt(root, path))}`)
  }
  return report
}

/** True for an issue which says that a value is of another kind than a branch of a union is for. */
function isOtherKind(issue: Issue): boolean {
  return (
    issue.path.length === 0 && (issue.code === 'invalid_type' || issue.code === 'invalid_value')
  )
}

/** `host: port`, which YAML reads as a map of one key, as the text that was meant. */
function hostAsKey(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const [entry, ...rest] = Object.entries(value as Record<string, unknown>)
  if (entry === undefined || rest.length > 0 || !/[.:*]/.test(entry[0])) return undefined
  const port = entry[1]
  return typeof port === 'number' || typeof port === 'string' ? `${entry[0]}:${port}` : entry[0]
}

function expectation(issue: Issue, value: unknown): string {
  switch (issue.code) {
    case 'invalid_type':
      return value === undefined
        ? 'is missing'
        : `${kindOf(value)}; expected ${article(issue.expected)}`
    case 'invalid_value':
      return `is ${JSON.stringify(value)}; expected ${issue.values.map(String).join(', ')}`
    case 'too_small':
      return `is ${JSON.stringify(value)}; the least is ${issue.minimum}`
    case 'too_big':
      return `is ${JSON.stringify(value)}; the most is ${issue.maximum}`
    default:
      return `is ${JSON.stringify(value)}; expected ${issue.message}`
  }
}

function article(expected: string): string {
  const words: Record<string, string> = {
    array: 'a list',
    object: 'a map',
    record: 'a map',
    int: 'a whole number',
    string: 'a text (quote it)',
    boolean: 'true or false',
  }
  return words[expected] ?? `a ${expected}`
}

function kindOf(value: unknown): string {
  if (value === null || value === undefined) return 'is empty'
  if (Array.isArray(value)) return 'is a list'
  if (typeof value === 'object') return 'is a map'
  if (typeof value === 'number') return `is ${value}`
  return `is ${JSON.stringify(value)}`
}

function describePath(path: Path): string {
  if (path.length === 0) return 'the file'
  const text = path
    .map((key) => (typeof key === 'number' ? `[${key + 1}]` : `.${String(key)}`))
    .join('')
  return text.replace(/^\./, '')
}

function valueAt(root: unknown, path: Path): unknown {
  let value = root
  for (const key of path) {
    if (typeof value !== 'object' || value === null) return undefined
    value = (value as Record<PropertyKey, unknown>)[key]
  }
  return value
}
