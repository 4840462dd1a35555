import { createHash } from 'node:crypto'
import { type Problem, problemsError } from '../errors.ts'
import { AddressIndex } from './address-index.ts'
import { classifyIp } from './address-kind.ts'
import { cidrCovers, formatCidr } from './address.ts'
import { OverlapIndex } from './literal-index.ts'
import { localNameKind } from './local-names.ts'
import { NameIndex } from './name-index.ts'
import { patternsOverlap } from './overlap.ts'
import { DEFAULT_DOOR, type DoorPolicy } from './door-range.ts'
import { DEFAULT_TLS } from './parse.ts'
import { isWildcard, type Pattern } from './pattern.ts'
import type { Mode, Policy, TlsPolicy } from './policy.ts'
import { formatPorts, portsOverlap } from './ports.ts'
import type { PlacedRule } from './rule-bucket.ts'
import type { Rule } from './rule.ts'

/** Everything a policy consists of, in order: presets first, then the file's own rules, then what was added by hand. */
export interface PolicyParts {
  readonly mode: Mode
  readonly rules: readonly Rule[]
  readonly quiet?: readonly Rule[]
  /** Default: `{ sni: 'enforce', require: false }`. */
  readonly tls?: TlsPolicy
  readonly limits?: Readonly<Partial<Record<string, number>>>
  /** Default: names are addresses of 127.64.0.0/10. */
  readonly door?: DoorPolicy
}

/**
 * Makes a policy that is ready to decide.
 *
 * @throws {EgressError} POLICY_RULE when a rule could do nothing in this mode, or with this door
 */
export function compilePolicy(parts: PolicyParts): Policy {
  const { mode, quiet = [], tls = DEFAULT_TLS, limits = {}, door = DEFAULT_DOOR } = parts
  if (mode === 'denylist') refuseIdleRules(parts.rules)
  if (parts.door !== undefined) refuseRulesInside(parts.rules, door)
  const rules = place(parts.rules)
  return Object.freeze({
    mode,
    rules,
    names: new NameIndex(rules),
    addresses: new AddressIndex(rules),
    quiet: new NameIndex(place(quiet)),
    tls,
    limits,
    door,
    digest: digestOf({ ...parts, tls, quiet, limits, door }),
  })
}

function place(rules: readonly Rule[]): readonly PlacedRule[] {
  // Written out: spreading makes each of 200,000 rules three times as large.
  return rules.map((rule, i) => ({
    effect: rule.effect,
    pattern: rule.pattern,
    ports: rule.ports,
    namesPorts: rule.namesPorts,
    until: rule.until,
    private: rule.private,
    text: rule.text,
    note: rule.note,
    origin: rule.origin,
    place: i,
  }))
}

/** In denylist mode a plain rule only means something as an exception to an exclusion before it, or to the floor. */
function refuseIdleRules(rules: readonly Rule[]): void {
  const problems: Problem[] = []
  const overlapping = new OverlapIndex()
  for (const rule of rules) {
    if (rule.effect === 'exclude') {
      overlapping.add(rule)
      continue
    }
    const { pattern } = rule
    if (rule.private || opensFloorRange(pattern) || opensLocalName(pattern)) continue
    if (some(overlapping.candidates(pattern), (one) => rulesOverlap(one, rule))) continue
    const { source, line, column } = rule.origin
    problems.push({
      code: 'POLICY_RULE',
      message: `${JSON.stringify(rule.text)} allows what denylist mode allows anyway`,
      at: { file: source, line, column },
      correction: `${JSON.stringify(`!${rule.text}`)} to deny it`,
    })
  }
  if (problems.length > 0) throw problemsError(problems)
}

/** An address that stands for names leads to those: a rule for it would be for nobody. */
function refuseRulesInside(rules: readonly Rule[], { syntheticRange }: DoorPolicy): void {
  const range = formatCidr(syntheticRange)
  if (range === formatCidr(DEFAULT_DOOR.syntheticRange)) return
  const problems = rules.flatMap(({ effect, pattern, text, origin }): Problem[] => {
    if (effect === 'exclude' || pattern.kind !== 'ip') return []
    if (!cidrCovers(syntheticRange, pattern.cidr)) return []
    const { source, line, column } = origin
    return [
      {
        code: 'POLICY_RULE',
        message: `${JSON.stringify(text)} lies in door.syntheticRange ${range}, whose addresses stand for names`,
        at: { file: source, line, column },
        correction: 'another door.syntheticRange',
      },
    ]
  })
  if (problems.length > 0) throw problemsError(problems)
}

function some<T>(items: Iterable<T>, test: (item: T) => boolean): boolean {
  for (const item of items) if (test(item)) return true
  return false
}

function opensFloorRange(pattern: Pattern): boolean {
  if (pattern.kind === 'name') return false
  const { kind, floor } = classifyIp(pattern.cidr.first)
  return kind !== 'public' && (floor === undefined || cidrCovers(floor, pattern.cidr))
}

function opensLocalName(pattern: Pattern): boolean {
  return (
    pattern.kind === 'name' && !isWildcard(pattern) && localNameKind(pattern.text) !== undefined
  )
}

function rulesOverlap(a: Rule, b: Rule): boolean {
  return portsOverlap(a.ports, b.ports) && patternsOverlap(a.pattern, b.pattern)
}

function digestOf(parts: Required<PolicyParts>): string {
  const hash = createHash('sha256')
  const line = (rule: Rule) =>
    [
      rule.effect,
      rule.pattern.text,
      formatPorts(rule.ports),
      rule.namesPorts,
      rule.until,
      rule.private,
    ].join(' ')
  hash.update(JSON.stringify([parts.mode, parts.tls, parts.limits]))
  const range = formatCidr(parts.door.syntheticRange)
  if (range !== formatCidr(DEFAULT_DOOR.syntheticRange)) hash.update(`\ndoor ${range}`)
  for (const rule of parts.rules) hash.update(`\n${line(rule)}`)
  for (const rule of parts.quiet) hash.update(`\nquiet ${line(rule)}`)
  return hash.digest('hex')
}
