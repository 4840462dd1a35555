import type { ErrorCode } from '../errors.ts'
import { familyBits } from './address.ts'
import { isWildcard, parsePattern, type Pattern } from './pattern.ts'
import { ALL_PORTS, normalizePorts, notAPort, parsePortRange, type PortRange } from './ports.ts'
import { spansPublicSuffix } from './width.ts'

/** Where a rule is written. `source` is the path as given, `preset:NAME`, or `--rule`. */
export interface Origin {
  readonly source: string
  readonly line: number
  readonly column: number
}

/** One rule, read and checked. */
export interface Rule {
  readonly effect: 'allow' | 'exclude'
  readonly pattern: Pattern
  /** Normalized. All ports for an exclusion that names none. */
  readonly ports: readonly PortRange[]
  /** True if the rule itself names its ports. */
  readonly namesPorts: boolean
  /** The rule matches until then (milliseconds since 1970); undefined is for ever. */
  readonly until: number | undefined
  /** An exact name that may resolve to a private address. */
  readonly private: boolean
  /** The host of the rule as written, with its `!` and port. */
  readonly text: string
  readonly note: string | undefined
  readonly origin: Origin
}

/** A rule as it stands in a file, shape already checked. */
export interface RuleSource {
  readonly host: string
  readonly ports?: readonly (number | string)[] | undefined
  readonly private?: boolean | undefined
  readonly wide?: boolean | undefined
  readonly note?: string | undefined
  readonly until?: string | undefined
}

/** Why a rule is refused, and which key of it. */
export interface RuleFault {
  readonly code: ErrorCode
  readonly key: keyof RuleSource
  readonly message: string
  readonly correction?: string
}

/** `origin` in one line, as `test` and events print it. */
export function formatOrigin(origin: Origin): string {
  return `${origin.source}:${origin.line}`
}

/** True if the rule has not run out. */
export function isLive(rule: Rule, nowMs: number): boolean {
  return rule.until === undefined || nowMs < rule.until
}

/** The part of a rule behind `!`, split into pattern and port. Brackets and prefix lengths hold colons of their own. */
function splitPorts(text: string): { pattern: string; ports: string | undefined } {
  const tail =
    /^(\[[^\]]*\](?:\/\d+)?):([^:]*)$/.exec(text) ??
    /^([^/[\]]+\/\d+):([^:]*)$/.exec(text) ??
    /^([^:[\]]+):([^:]*)$/.exec(text)
  return tail
    ? { pattern: tail[1] ?? '', ports: tail[2] ?? '' }
    : { pattern: text, ports: undefined }
}

/** The parts of a rule's host: its `!`, its pattern, and the text behind the colon. */
function readHost(host: string) {
  const bang = host.startsWith('!') ? '!' : ''
  const rest = host.slice(bang.length)
  const hasScheme = /^[a-z][a-z\d+.-]*:\/\//i.test(rest)
  const split = hasScheme ? { pattern: rest, ports: undefined } : splitPorts(rest)
  return { bang, pattern: parsePattern(split.pattern), portText: split.ports }
}

/** The host that was meant. What is offered loads: a second fault is corrected as well, or nothing is offered. */
function correctHost(host: string, isWide: boolean, tries = 4): string | undefined {
  const { bang, pattern, portText } = readHost(host)
  if (pattern.kind === 'bad') {
    if (pattern.correction === undefined || tries === 0) return undefined
    const ports = portText === undefined ? '' : `:${portText}`
    return correctHost(`${bang}${pattern.correction}${ports}`, isWide, tries - 1)
  }
  if (portText !== undefined && parsePortRange(portText) === undefined) return undefined
  const tooWide = pattern.kind === 'name' && bang === '' && !isWide && spansPublicSuffix(pattern)
  return tooWide ? undefined : host
}

/**
 * Reads one rule. `defaultPorts` are the file's `ports`, which an allow rule without a port of its own gets.
 * Answers the rule, or every reason why it is none.
 */
export function parseRule(
  source: RuleSource,
  defaultPorts: readonly PortRange[],
  origin: Origin,
): Rule | readonly RuleFault[] {
  const faults: RuleFault[] = []
  const fail = (code: ErrorCode, key: keyof RuleSource, message: string, correction?: string) => {
    faults.push({ code, key, message, ...(correction !== undefined && { correction }) })
  }
  const { host } = source
  const { bang, pattern, portText } = readHost(host)

  if (pattern.kind === 'bad') {
    const correction = correctHost(host, source.wide === true)
    fail(
      'POLICY_PATTERN',
      'host',
      `${JSON.stringify(host)}: ${pattern.why}`,
      correction === undefined ? undefined : JSON.stringify(correction),
    )
  }
  const ports = readPorts(source, portText, fail)
  const effect = bang === '!' ? 'exclude' : 'allow'

  if (pattern.kind !== 'bad') {
    const exactName = pattern.kind === 'name' && !isWildcard(pattern)
    if (source.private === true && (effect === 'exclude' || !exactName)) {
      fail('POLICY_RULE', 'private', 'private is for an allow rule with an exact name')
    }
    if (source.wide === true && pattern.kind === 'ip') {
      fail('POLICY_RULE', 'wide', 'wide is for patterns over names')
    }
    const tooWide = pattern.kind === 'name' && effect === 'allow' && spansPublicSuffix(pattern)
    if (tooWide && source.wide !== true) {
      fail(
        'POLICY_PATTERN',
        'host',
        `${JSON.stringify(host)} is as wide as a public suffix: it matches names of unrelated owners`,
        `{ host: ${JSON.stringify(host)}, wide: true } if that is meant`,
      )
    }
  }
  const until = readUntil(source.until, fail)
  if (faults.length > 0 || pattern.kind === 'bad') return faults
  const fallback = effect === 'exclude' ? ALL_PORTS : defaultPorts
  return {
    effect,
    pattern,
    ports: ports ?? fallback,
    namesPorts: ports !== undefined,
    until,
    private: source.private === true,
    text: host,
    note: source.note,
    origin,
  }
}

type Fail = (code: ErrorCode, key: keyof RuleSource, message: string, correction?: string) => void

function readPorts(
  source: RuleSource,
  written: string | undefined,
  fail: Fail,
): readonly PortRange[] | undefined {
  if (written !== undefined && source.ports !== undefined) {
    fail('POLICY_RULE', 'ports', 'the port is given twice: behind the host and as ports')
    return undefined
  }
  const texts = written === undefined ? source.ports?.map(String) : [written]
  if (texts === undefined) return undefined
  const ranges: PortRange[] = []
  for (const text of texts) {
    const range = parsePortRange(text)
    if (range) ranges.push(range)
    else {
      const key = written === undefined ? 'ports' : 'host'
      fail('POLICY_PATTERN', key, notAPort(text))
    }
  }
  if (texts.length === 0) fail('POLICY_RULE', 'ports', 'an empty list of ports matches nothing')
  return normalizePorts(ranges)
}

function readUntil(text: string | undefined, fail: Fail): number | undefined {
  if (text === undefined) return undefined
  const form = /^(\d{4})-(\d\d)-(\d\d)T\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:Z|[+-]\d\d:\d\d)$/.exec(
    text,
  )
  const time = form ? Date.parse(text) : NaN
  const day = form
    ? new Date(Date.UTC(Number(form[1]), Number(form[2]) - 1, Number(form[3])))
    : undefined
  if (Number.isNaN(time) || day?.getUTCDate() !== Number(form?.[3])) {
    const dateOnly = /^\d{4}-\d\d-\d\d$/.test(text)
    fail(
      'POLICY_RULE',
      'until',
      `until has to be a date and time with a zone, not ${JSON.stringify(text)}`,
      dateOnly ? `${text}T00:00:00Z` : undefined,
    )
    return undefined
  }
  return time
}

/** True if the rule is for one address and names this port alone: the only rule that opens metadata and our own host. */
export function isExactAddressRule(rule: Rule, port: number): boolean {
  if (rule.pattern.kind !== 'ip' || !rule.namesPorts) return false
  const { first, bits } = rule.pattern.cidr
  return (
    bits === familyBits(first.family) &&
    rule.ports.some(({ low, high }) => low === port && high === port)
  )
}
