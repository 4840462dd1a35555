/** An inclusive range of ports. */
export interface PortRange {
  readonly low: number
  readonly high: number
}

export const ALL_PORTS: readonly PortRange[] = [{ low: 1, high: 65535 }]

/** Reads `443`, `8000-8010` or `*`; anything else is undefined. */
export function parsePortRange(text: string): PortRange | undefined {
  if (text === '*') return ALL_PORTS[0]
  const match = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(text)
  if (match === null) return undefined
  const low = Number(match[1])
  const high = Number(match[2] ?? match[1])
  return low >= 1 && low <= high && high <= 65535 ? { low, high } : undefined
}

/** What is said about a text that `parsePortRange` does not take. */
export function notAPort(text: string): string {
  return `${JSON.stringify(text)} is no port (1 to 65535), range LO-HI or *`
}

/** True if the port lies in one of the ranges. */
export function portsContain(ranges: readonly PortRange[], port: number): boolean {
  for (const { low, high } of ranges) if (port >= low && port <= high) return true
  return false
}

/** Sorted, disjoint and joined where they touch, so that equal sets are written alike. */
export function normalizePorts(ranges: readonly PortRange[]): readonly PortRange[] {
  const result: { low: number; high: number }[] = []
  for (const { low, high } of ranges.toSorted((a, b) => a.low - b.low)) {
    const last = result.at(-1)
    if (last && low <= last.high + 1) last.high = Math.max(last.high, high)
    else result.push({ low, high })
  }
  return result
}

/** True if every port of `inner` is in `outer`; both normalized. */
export function portsCover(outer: readonly PortRange[], inner: readonly PortRange[]): boolean {
  return inner.every((one) => outer.some(({ low, high }) => low <= one.low && one.high <= high))
}

/** True if some port is in both. */
export function portsOverlap(a: readonly PortRange[], b: readonly PortRange[]): boolean {
  return a.some((one) => b.some(({ low, high }) => low <= one.high && one.low <= high))
}

/** The ports as a rule has them behind its colon. */
export function formatPorts(ranges: readonly PortRange[]): string {
  return ranges
    .map(({ low, high }) => {
      if (low === 1 && high === 65535) return '*'
      return low === high ? `${low}` : `${low}-${high}`
    })
    .join(',')
}
