import { createHash } from 'node:crypto'

/** SHA-256 over a value as JSON with sorted keys, in hex. */
export function digestOf(value: unknown): string {
  const text = JSON.stringify(value, (_, one: unknown) =>
    isMap(one) ? Object.fromEntries(Object.entries(one).toSorted(byKey)) : one,
  )
  return createHash('sha256').update(text).digest('hex')
}

/** True for a plain map of values. */
export function isMap(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function byKey([a]: [string, unknown], [b]: [string, unknown]): number {
  return a < b ? -1 : 1
}
