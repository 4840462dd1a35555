import { createHash } from 'node:crypto'
import { isMap } from './is-map.ts'

/** SHA-256 over a value as JSON with sorted keys, in hex. */
export function digestOf(value: unknown): string {
  const text = JSON.stringify(value, (_, one: unknown) =>
    isMap(one) ? Object.fromEntries(Object.entries(one).toSorted(byKey)) : one,
  )
  return createHash('sha256').update(text).digest('hex')
}

function byKey([a]: [string, unknown], [b]: [string, unknown]): number {
  return a < b ? -1 : 1
}
