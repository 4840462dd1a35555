import type { Problem, SourcePlace } from '../errors.ts'
import { problemsError } from '../errors.ts'
import type { DoorPolicy } from './door-range.ts'
import { type PolicyTest, readDoor, readQuiet, readTests } from './parse-parts.ts'
import type { Mode, TlsPolicy } from './policy.ts'
import { normalizePorts, notAPort, parsePortRange, type PortRange } from './ports.ts'
import { parseRule, type Rule, type RuleSource } from './rule.ts'
import { checkShape } from './shape-problems.ts'
import {
  type PolicyShape,
  policySchema,
  portItem,
  type PresetShape,
  presetSchema,
} from './schema.ts'
import { type YamlPart, YamlSource } from './yaml-source.ts'

/** The name of a preset where it is called for. */
export interface PresetReference {
  readonly name: string
  readonly at: SourcePlace
}

/** A policy file as written, checked but not yet joined with its presets. */
export interface PolicySource {
  readonly file: string
  /** True if the policy stands inside another file: presets by path stay under the folder of that file. */
  readonly isEmbedded: boolean
  readonly mode: Mode
  readonly presets: readonly PresetReference[]
  readonly rules: readonly Rule[]
  readonly quiet: readonly Rule[]
  readonly tls: TlsPolicy
  readonly limits: Readonly<Partial<Record<string, number>>>
  readonly door: DoorPolicy
  readonly tests: readonly PolicyTest[]
  /** The text of a line of the file, for messages. */
  readonly lineAt: (line: number) => string
}

/** A preset file as written, checked but not yet joined with what it extends. */
export interface PresetSource {
  readonly file: string
  readonly name: string
  readonly description: string
  readonly verified: string | undefined
  readonly extends: readonly PresetReference[]
  readonly rules: readonly Rule[]
  readonly tests: readonly PolicyTest[]
  /** What the file says about each rule beyond what decides, in the order of `rules`. */
  readonly entries: readonly PresetEntry[]
}

/** What a preset says about one of its rules. */
export interface PresetEntry {
  readonly note: string | undefined
  readonly source: string | undefined
  readonly verified: string | undefined
  readonly exfiltration: string | undefined
}

/** The ports of an allow rule that names none, in a file that names none. */
export const DEFAULT_PORTS: readonly PortRange[] = [
  { low: 80, high: 80 },
  { low: 443, high: 443 },
]

export const DEFAULT_TLS: TlsPolicy = { sni: 'enforce', require: false }

const POLICY_KEYS = Object.keys(policySchema.shape)
const PRESET_KEYS = Object.keys(presetSchema.shape)
const RULE_KEYS = ['host', 'ports', 'private', 'wide', 'note', 'until']
const PRESET_RULE_KEYS = ['host', 'ports', 'note', 'source', 'verified', 'exfiltration']

function nestedKeys(path: readonly PropertyKey[], ruleKeys: readonly string[]): readonly string[] {
  switch (path[0]) {
    case 'rules':
      return ruleKeys
    case 'tls':
      return Object.keys(policySchema.shape.tls.unwrap().shape)
    case 'limits':
      return Object.keys(policySchema.shape.limits.unwrap().shape)
    case 'door':
      return Object.keys(policySchema.shape.door.unwrap().shape)
    default:
      return ['allow', 'deny']
  }
}

/** How a policy is read. */
export interface ParseOptions {
  /** Says what is wrong with the name of a preset; undefined if nothing is. Default: names are looked up later. */
  readonly checkPreset?: (name: string) => string | undefined
}

/**
 * Reads the text of a policy file.
 *
 * @param file the path as it is to be shown
 * @throws {EgressError} with every problem of the file: POLICY_SYNTAX, POLICY_SHAPE, POLICY_PATTERN, POLICY_RULE
 */
export function parsePolicy(text: string, file: string, options: ParseOptions = {}): PolicySource {
  const source = new YamlSource(text, file)
  const policy = readPolicyPart(source, options)
  if (source.problems.length > 0 || policy === undefined) throw problemsError(inOrder(source))
  return policy
}

/**
 * Reads the policy that a YAML text, or a part of it, is, by the rules of {@link parsePolicy}. What is wrong with it is
 * reported to the text; undefined if its shape is wrong.
 */
export function readPolicyPart(source: YamlPart, options: ParseOptions): PolicySource | undefined {
  const { file } = source
  const shape = readShape(source, policySchema, (path) =>
    path.length === 0 ? POLICY_KEYS : nestedKeys(path, RULE_KEYS),
  )
  const value = shape ?? (looseValue(source) as PolicyShape)
  const ports = readDefaultPorts(source, value.ports)
  const rules = readRules(source, value.rules, ports, file)
  const quiet = readQuiet(source, value.quiet, file)
  const tests = readTests(source, value.tests, file)
  const door = readDoor(source, value.door)
  if (value.preset !== undefined && value.presets !== undefined) {
    source.reportKey('POLICY_SHAPE', [], 'preset', 'give either preset or presets, not both')
  }
  checkPresets(source, value, options)
  if (shape === undefined) return undefined
  return {
    file,
    isEmbedded: source.base.length > 0,
    mode: shape.mode ?? 'allowlist',
    presets:
      shape.preset === undefined
        ? readReferences(source, 'presets', shape.presets)
        : [{ name: shape.preset, at: source.placeOf(['preset']) }],
    rules: rules.map(({ rule }) => rule),
    quiet,
    tls: {
      sni: shape.tls?.sni ?? DEFAULT_TLS.sni,
      require: shape.tls?.require ?? DEFAULT_TLS.require,
    },
    limits: shape.limits ?? {},
    door,
    tests,
    lineAt: (line) => source.lineAt(line),
  }
}

/**
 * Reads the text of a preset file. A preset only allows and excludes names: whatever would loosen a check is refused.
 *
 * @param file the path as it is to be shown
 * @throws {EgressError} with every problem of the file: POLICY_SYNTAX, POLICY_SHAPE, POLICY_PATTERN, POLICY_RULE
 */
export function parsePreset(text: string, file: string): PresetSource {
  const source = new YamlSource(text, file)
  const shape = readShape(source, presetSchema, (path) =>
    path.length === 0 ? PRESET_KEYS : nestedKeys(path, PRESET_RULE_KEYS),
  )
  const value = shape ?? (looseValue(source) as PresetShape)
  const label = `preset:${typeof value.name === 'string' ? value.name : file}`
  const rules = readRules(source, value.rules, DEFAULT_PORTS, label)
  for (const { rule, path } of rules) {
    if (rule.effect === 'exclude' || rule.pattern.kind === 'name') continue
    source.report('POLICY_RULE', path, `a preset allows names, not addresses: ${rule.text}`)
  }
  const tests = readTests(source, value.tests, label)
  if (source.problems.length > 0 || shape === undefined) throw problemsError(inOrder(source))
  return {
    file,
    name: shape.name,
    description: shape.description,
    verified: shape.verified,
    extends: readReferences(source, 'extends', shape.extends),
    rules: rules.map(({ rule }) => rule),
    tests,
    entries: rules.map(({ written }) => ({
      note: written.note,
      source: written.source,
      verified: written.verified,
      exfiltration: written.exfiltration,
    })),
  }
}

function readShape<T>(
  source: YamlPart,
  schema: Parameters<typeof checkShape<T>>[1],
  knownKeys: (path: readonly PropertyKey[]) => readonly string[],
): T | undefined {
  if (!source.isReadable) throw problemsError(inOrder(source))
  const value = source.toValue()
  return checkShape(source, schema, value ?? {}, knownKeys)
}

/** The problems of a text from its top to its end. */
export function inOrder(source: YamlPart): Problem[] {
  return source.problems.toSorted(
    (a, b) => (a.at?.line ?? 0) - (b.at?.line ?? 0) || (a.at?.column ?? 0) - (b.at?.column ?? 0),
  )
}

/** What can still be looked at in a file whose shape is wrong, so that all its problems show at once. */
function looseValue(source: YamlPart): unknown {
  const value = source.toValue()
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : {}
}

function readDefaultPorts(source: YamlPart, ports: unknown): readonly PortRange[] {
  if (!hasPortShape(ports)) return DEFAULT_PORTS
  if (ports.length === 0)
    source.report('POLICY_RULE', ['ports'], 'an empty list of ports matches nothing')
  const ranges = ports.map((one, i) => {
    const range = parsePortRange(String(one))
    if (range === undefined) source.report('POLICY_PATTERN', ['ports', i], notAPort(String(one)))
    return range
  })
  return normalizePorts(ranges.filter((range) => range !== undefined))
}

/** True for a list of ports whose shape is right: what is wrong with another one has been reported. */
function hasPortShape(ports: unknown): ports is (number | string)[] {
  return Array.isArray(ports) && ports.every((one) => portItem.safeParse(one).success)
}

interface WrittenRule extends RuleSource {
  readonly source?: string
  readonly verified?: string
  readonly exfiltration?: string
}

/** The rules whose shape is right; what is wrong with the others has been reported. */
function readRules(
  source: YamlPart,
  list: unknown,
  defaultPorts: readonly PortRange[],
  label: string,
) {
  const rules: { rule: Rule; written: WrittenRule; path: readonly PropertyKey[] }[] = []
  if (!Array.isArray(list)) return rules
  for (const [i, item] of list.entries() as IterableIterator<[number, unknown]>) {
    const written = typeof item === 'string' ? { host: item } : item
    if (!isWrittenRule(written)) continue
    const at = source.placeOf(['rules', i])
    const { ports: _, ...rest } = written
    const usable = hasPortShape(written.ports) ? written : rest
    const rule = parseRule(usable, defaultPorts, {
      source: label,
      line: at.line,
      column: at.column,
    })
    if (!('length' in rule)) {
      rules.push({ rule, written, path: ['rules', i] })
      continue
    }
    for (const fault of rule) {
      const path = typeof item === 'string' ? ['rules', i] : ['rules', i, fault.key]
      source.report(fault.code, path, fault.message, fault.correction)
    }
  }
  return rules
}

function isWrittenRule(item: unknown): item is WrittenRule {
  if (typeof item !== 'object' || item === null) return false
  const rule = item as Partial<Record<keyof WrittenRule, unknown>>
  return (
    typeof rule.host === 'string' && (rule.until === undefined || typeof rule.until === 'string')
  )
}

function checkPresets(source: YamlPart, value: PolicyShape, options: ParseOptions): void {
  const named: [readonly PropertyKey[], unknown][] = [[['preset'], value.preset]]
  if (Array.isArray(value.presets)) {
    for (const [i, name] of value.presets.entries()) named.push([['presets', i], name])
  }
  for (const [path, name] of named) {
    const wrong = typeof name === 'string' ? options.checkPreset?.(name) : undefined
    if (wrong !== undefined) source.report('PRESET_UNKNOWN', path, wrong)
  }
}

function readReferences(
  source: YamlPart,
  key: string,
  names: readonly string[] | undefined,
): PresetReference[] {
  return (names ?? []).map((name, i) => ({ name, at: source.placeOf([key, i]) }))
}
