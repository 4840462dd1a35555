import { DEFAULT_DOOR, type DoorPolicy, readSyntheticRange } from './door-range.ts'
import { ALL_PORTS } from './ports.ts'
import { type Origin, parseRule, type Rule } from './rule.ts'
import { type BadTarget, isBadTarget, parseTarget, type Target } from './target.ts'
import type { YamlPart } from './yaml-source.ts'

// The parts of a file that decide nothing by themselves.

/** One assertion that a file carries about its own policy. */
export interface PolicyTest {
  readonly expect: 'allow' | 'deny'
  readonly text: string
  readonly target: Target | BadTarget
  readonly origin: Origin
}

/** The patterns of `quiet`. */
export function readQuiet(source: YamlPart, list: unknown, label: string): readonly Rule[] {
  if (!Array.isArray(list)) return []
  const rules: Rule[] = []
  for (const [i, item] of list.entries() as IterableIterator<[number, unknown]>) {
    if (typeof item !== 'string') continue
    const at = source.placeOf(['quiet', i])
    const origin = { source: label, line: at.line, column: at.column }
    const path = ['quiet', i]
    if (item.startsWith('!')) {
      source.report(
        'POLICY_PATTERN',
        path,
        'a quiet pattern has no !',
        JSON.stringify(item.slice(1)),
      )
      continue
    }
    // Silence is not permission: a quiet pattern may be wide, and it speaks of every port unless it names some.
    const rule = parseRule({ host: item, wide: true }, ALL_PORTS, origin)
    if (!('length' in rule)) rules.push(rule)
    else {
      for (const { code, key, message, correction } of rule) {
        source.report(
          code,
          path,
          key === 'wide' ? 'quiet is for patterns over names' : message,
          correction,
        )
      }
    }
  }
  return rules
}

/** What is said of doors. */
export function readDoor(source: YamlPart, door: unknown): DoorPolicy {
  const { syntheticRange: text } = (door ?? {}) as { readonly syntheticRange?: unknown }
  if (typeof text !== 'string') return DEFAULT_DOOR
  const range = readSyntheticRange(text)
  if (typeof range !== 'string') return { syntheticRange: range }
  const path = ['door', 'syntheticRange']
  source.report('POLICY_RULE', path, `${JSON.stringify(text)} cannot stand for names: ${range}`)
  return DEFAULT_DOOR
}

/** The assertions of a file. */
export function readTests(source: YamlPart, tests: unknown, label: string): readonly PolicyTest[] {
  if (typeof tests !== 'object' || tests === null) return []
  const found: PolicyTest[] = []
  for (const expect of ['allow', 'deny'] as const) {
    const list = (tests as Record<string, unknown>)[expect]
    if (!Array.isArray(list)) continue
    for (const [i, text] of list.entries() as IterableIterator<[number, unknown]>) {
      if (typeof text !== 'string') continue
      const at = source.placeOf(['tests', expect, i])
      const target = parseTarget(text)
      if (isBadTarget(target) && expect === 'allow') {
        source.report(
          'POLICY_SHAPE',
          ['tests', expect, i],
          `${JSON.stringify(text)} is no target: ${target.bad}`,
        )
        continue
      }
      found.push({
        expect,
        text,
        target,
        origin: { source: label, line: at.line, column: at.column },
      })
    }
  }
  return found
}
