import { cidrContains, cidrCovers } from './address.ts'
import { type NamePattern, type Pattern, patternLabels } from './pattern.ts'

/** True if every host that `inner` matches is matched by `outer` too. */
export function patternCovers(outer: Pattern, inner: Pattern): boolean {
  if (outer.kind === 'ip' || inner.kind === 'ip') {
    return outer.kind === 'ip' && inner.kind === 'ip' && cidrCovers(outer.cidr, inner.cidr)
  }
  const outerLabels = patternLabels(outer)
  const innerLabels = patternLabels(inner)
  const extra = innerLabels.length - outerLabels.length
  if (extra < 0) return false
  // An outer ** takes one label or more: labels of the inner one, or what its own ** stands for.
  if (outer.anyDepth ? extra === 0 && !inner.anyDepth : extra > 0 || inner.anyDepth) return false
  return outerLabels.every((label, i) => labelCovers(label, innerLabels[extra + i] ?? ''))
}

function labelCovers(outer: string, inner: string): boolean {
  if (outer === inner || outer === '*') return true
  const [head, tail] = outer.split('*')
  if (head === undefined || tail === undefined) return false
  const [innerHead = '', innerTail] = inner.split('*')
  if (innerTail === undefined) return labelsMeet(outer, inner)
  return innerHead.startsWith(head) && innerTail.endsWith(tail)
}

/** True if some host is matched by both. */
export function patternsOverlap(a: Pattern, b: Pattern): boolean {
  if (a.kind === 'ip' || b.kind === 'ip') {
    if (a.kind !== b.kind || a.kind !== 'ip' || b.kind !== 'ip') return false
    return cidrContains(a.cidr, b.cidr.first) || cidrContains(b.cidr, a.cidr.first)
  }
  return namesOverlap(a, b)
}

function namesOverlap(a: NamePattern, b: NamePattern): boolean {
  const sides = [a, b].map(({ anyDepth, ...rest }) => ({
    anyDepth,
    labels: patternLabels({ anyDepth, ...rest }),
  }))
  const [shorter, longer] = sides.toSorted((one, other) => one.labels.length - other.labels.length)
  if (shorter === undefined || longer === undefined) return false
  const extra = longer.labels.length - shorter.labels.length
  if (!shorter.anyDepth && (extra > 0 || longer.anyDepth)) return false
  // Its ** takes one label at least.
  if (shorter.anyDepth && extra === 0 && !longer.anyDepth) return false
  return shorter.labels.every((label, i) => labelsMeet(label, longer.labels[extra + i] ?? ''))
}

/** True if some label fits both, each with at most one star. */
function labelsMeet(a: string, b: string): boolean {
  const [headA = '', tailA] = a.split('*')
  const [headB = '', tailB] = b.split('*')
  if (tailA === undefined && tailB === undefined) return a === b
  if (tailA === undefined) return labelsMeet(b, a)
  if (tailB === undefined) {
    return b.length >= headA.length + tailA.length && b.startsWith(headA) && b.endsWith(tailA)
  }
  const heads = headA.startsWith(headB) || headB.startsWith(headA)
  return heads && (tailA.endsWith(tailB) || tailB.endsWith(tailA))
}
