import { portsContain } from './ports.ts'
import { isLive, type Rule } from './rule.ts'

/** A rule with its place in the whole policy: of two that match, the one with the higher place wins. */
export interface PlacedRule extends Rule {
  readonly place: number
}

/** The rules that share a key of an index, the last one first. */
export type Bucket = readonly PlacedRule[]

/**
 * Makes a bucket of rules in policy order. A rule that a later one always overrules is left out, so that a bucket is no
 * longer than there are different port sets (and, for addresses, ranges and rules that name their ports or do not: both
 * matter to the floor).
 */
export function toBucket(inOrder: readonly PlacedRule[]): Bucket {
  if (inOrder.length === 1) return inOrder
  const decided = new Set<string>()
  const bucket: PlacedRule[] = []
  for (const rule of inOrder.toReversed()) {
    const ports = rule.ports.map(({ low, high }) => `${low}-${high}`).join()
    const key =
      rule.pattern.kind === 'ip' ? `${ports}/${rule.pattern.cidr.bits}/${rule.namesPorts}` : ports
    if (decided.has(key)) continue
    bucket.push(rule)
    if (rule.until === undefined) decided.add(key)
  }
  return bucket
}

/** The last rule of the bucket that matches the port now, if any. */
export function lastInBucket(bucket: Bucket, port: number, nowMs: number): PlacedRule | undefined {
  for (const rule of bucket) {
    if (portsContain(rule.ports, port) && isLive(rule, nowMs)) return rule
  }
  return undefined
}

/** The last rule of all buckets that matches the port now, if any. */
export function lastMatch(
  buckets: Iterable<Bucket>,
  port: number,
  nowMs: number,
): PlacedRule | undefined {
  let best: PlacedRule | undefined
  for (const bucket of buckets) {
    const rule = lastInBucket(bucket, port, nowMs)
    if (rule && (best === undefined || rule.place > best.place)) best = rule
  }
  return best
}
