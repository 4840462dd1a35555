import type { z } from 'zod'
import { nearWords } from './near.ts'
import type { YamlSource } from './yaml-source.ts'

/** Keys that a later version gives a meaning; until then a file with them would not do what it says. */
const RESERVED_KEYS = new Set(['report', 'upstream', 'reload', 'learn'])

/**
 * Checks a value against a schema and reports every problem of its shape. Answers the value if there is none.
 * `knownKeys` lists what may stand where an unknown key was found.
 */
export function checkShape<T>(
  source: YamlSource,
  schema: z.ZodType<T>,
  value: unknown,
  knownKeys: (path: readonly PropertyKey[]) => readonly string[],
): T | undefined {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  for (const issue of result.error.issues) reportIssue(source, issue, [], value, knownKeys)
  return undefined
}

type Issue = z.core.$ZodIssue

function reportIssue(
  source: YamlSource,
  issue: Issue,
  prefix: readonly PropertyKey[],
  root: unknown,
  knownKeys: (path: readonly PropertyKey[]) => readonly string[],
): void {
  const path = [...prefix, ...issue.path]
  const name = describePath(path)
  if (issue.code === 'unrecognized_keys') {
    for (const key of issue.keys) {
      const near = nearWords(key, knownKeys(path))[0]
      const hint = near === undefined ? '' : `; did you mean ${near}?`
      const message = RESERVED_KEYS.has(key)
        ? `the key ${JSON.stringify(key)} is reserved for a later version`
        : `unknown key ${JSON.stringify(key)}${path.length > 0 ? ` in ${name}` : ''}${hint}`
      source.reportKey('POLICY_SHAPE', path, key, message)
    }
    return
  }
  const value = valueAt(root, path)
  if (issue.code === 'invalid_union') {
    const meant = hostAsKey(value)
    if (meant !== undefined) {
      source.report('POLICY_SHAPE', path, `${name} has the host as a key`, JSON.stringify(meant))
      return
    }
    const branch = issue.errors.find(
      (list) => !list.some((one) => one.path.length === 0 && one.code === 'invalid_type'),
    )
    if (branch && typeof value === 'object' && value !== null) {
      for (const one of branch) reportIssue(source, one, path, root, knownKeys)
      return
    }
    source.report('POLICY_SHAPE', path, `${name} ${kindOf(value)}; ${unionHint(path)}`)
    return
  }
  source.report('POLICY_SHAPE', path, `${name} ${expectation(issue, value)}`)
}

/** `host: port`, which YAML reads as a map of one key, as the text that was meant. */
function hostAsKey(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const [entry, ...rest] = Object.entries(value as Record<string, unknown>)
  if (entry === undefined || rest.length > 0 || !/[.:*]/.test(entry[0])) return undefined
  const port = entry[1]
  return typeof port === 'number' || typeof port === 'string' ? `${entry[0]}:${port}` : entry[0]
}

function unionHint(path: readonly PropertyKey[]): string {
  return path.includes('ports')
    ? 'a port is a number from 1 to 65535, a range "LO-HI" in quotes, or "*"'
    : 'a rule is a pattern in quotes or a map with the key host'
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

function describePath(path: readonly PropertyKey[]): string {
  if (path.length === 0) return 'the file'
  const text = path
    .map((key) => (typeof key === 'number' ? `[${key + 1}]` : `.${String(key)}`))
    .join('')
  return text.replace(/^\./, '')
}

function valueAt(root: unknown, path: readonly PropertyKey[]): unknown {
  let value = root
  for (const key of path) {
    if (typeof value !== 'object' || value === null) return undefined
    value = (value as Record<PropertyKey, unknown>)[key]
  }
  return value
}
