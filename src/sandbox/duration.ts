/** Nanoseconds of each unit. */
const UNITS: Readonly<Record<string, bigint>> = {
  ns: 1n,
  us: 1_000n,
  '\u00b5s': 1_000n,
  '\u03bcs': 1_000n,
  ms: 1_000_000n,
  s: 1_000_000_000n,
  m: 60_000_000_000n,
  h: 3_600_000_000_000n,
}

const TERM = /(\d*)(?:\.(\d*))?(ns|us|\u00b5s|\u03bcs|ms|s|m|h)/y
const NANOSECONDS_PER_MS = 1e6
/** Go counts nanoseconds in 64 bits. */
const MAX_NANOSECONDS = 2n ** 63n

/**
 * Reads a duration as Go's `time.ParseDuration` does: a sign, then numbers with a unit (`1h30m`, `1.5s`, `-300ms`, `0`).
 * Answers milliseconds, which may be negative or a fraction; undefined for what Go refuses.
 */
export function parseGoDuration(text: string): number | undefined {
  const isNegative = text.startsWith('-')
  const body = text.replace(/^[-+]/, '')
  if (body === '0') return 0
  const total = sumTerms(body)
  if (total === undefined || total > MAX_NANOSECONDS) return undefined
  if (total === MAX_NANOSECONDS && !isNegative) return undefined
  return Number(isNegative ? -total : total) / NANOSECONDS_PER_MS
}

function sumTerms(body: string): bigint | undefined {
  if (body === '') return undefined
  let total = 0n
  for (let from = 0; from < body.length; from = TERM.lastIndex) {
    TERM.lastIndex = from
    const [term, whole = '', fraction = '', unit = ''] = TERM.exec(body) ?? []
    const size = UNITS[unit]
    if (term === undefined || size === undefined || whole + fraction === '') return undefined
    total += BigInt(whole || '0') * size
    total += (BigInt(fraction || '0') * size) / 10n ** BigInt(fraction.length)
  }
  return total
}

/**
 * Writes milliseconds as a Go duration without parts that are zero: `1h30m`, `1.5s`, `300ms`, `0s`. What
 * {@link parseGoDuration} reads again as the same number.
 */
export function formatGoDuration(ms: number): string {
  if (ms === 0) return '0s'
  const sign = ms < 0 ? '-' : ''
  const size = Math.abs(ms)
  if (size < 1_000) return `${sign}${plainNumber(size)}ms`
  const hours = Math.floor(size / 3_600_000)
  const minutes = Math.floor((size % 3_600_000) / 60_000)
  const restMs = size % 60_000
  const parts = [
    hours > 0 ? `${hours}h` : '',
    minutes > 0 ? `${minutes}m` : '',
    restMs > 0 ? `${plainNumber(restMs / 1_000)}s` : '',
  ]
  return sign + parts.join('')
}

/** A number to the nanosecond, without an exponent. */
function plainNumber(value: number): string {
  return value.toFixed(9).replace(/\.?0+$/, '')
}
