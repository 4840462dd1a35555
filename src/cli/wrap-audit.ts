import type { EgressEvent } from '../events/event.ts'
import { cidrContains, parseIpv4 } from '../policy/address.ts'
import { classifyIp } from '../policy/address-kind.ts'
import type { DenyReason } from '../policy/decide.ts'
import { explain, suggestRule } from '../policy/explain.ts'
import type { Policy } from '../policy/policy.ts'
import { parseTarget } from '../policy/target.ts'
import { renderTable, shownLines } from './render.ts'

/** The most lines that are kept. */
const MAX_LINES = 1_000

/** What was asked for, and what came of it. */
interface AuditLine {
  readonly verdict: 'allowed' | 'denied'
  readonly host: string
  /** 0: a name was looked up, and nobody came as far as a port. */
  readonly port: number
  /** The reason of a denial, or the rule that allowed. */
  readonly reason: string
  times: number
}

/** What was asked for, for programs. */
interface AuditReport {
  /** Without a port a name was looked up, and nobody came as far as one. */
  readonly lines: readonly (Omit<AuditLine, 'port'> & { readonly port?: number })[]
  /** Rules, as a policy file has them, that would allow what was denied. */
  readonly rules: readonly string[]
  /** The same that would open addresses that are not public. */
  readonly inside: readonly string[]
}

/** A port that the door does not serve leads nowhere inside, and nobody hears of it. */
const NOTHING =
  'iterion-egress: nothing was asked of the proxy (a port that no rule names, or that is reached by the proxy port alone, is refused inside and not seen)\n'

/** Keeps count of what a command asked of the network. */
export class WrapAudit {
  readonly #lines = new Map<string, AuditLine>()
  #left = 0

  /** Counts an event, if it is about a decision. A tunnel counts once, and what is asked inside it does not. */
  record({ type, data }: EgressEvent): void {
    if (type === 'network_allowed') {
      if (data.in_tunnel === true) return
      this.#count({ verdict: 'allowed', ...placeOf(data), reason: data.rule ?? 'the mode' })
    } else if (type === 'network_blocked') {
      this.#count({ verdict: 'denied', ...placeOf(data), reason: data.reason })
    }
  }

  /** The report for people: a table, and the rules that would allow what was denied. */
  render(policy: Policy, nowMs: number): string {
    const lines = this.#sorted()
    if (lines.length === 0) return NOTHING
    const rows = lines.map(({ verdict, host, port, times, reason }) =>
      [verdict, host, port === 0 ? '-' : String(port), String(times), reason].map(shownLines),
    )
    const more = this.#left === 0 ? '' : `and ${this.#left} more\n`
    const { rules, inside } = suggestionsFor(lines, policy, nowMs)
    return [
      `iterion-egress: what was asked of the network\n${renderTable([HEAD, ...rows])}${more}`,
      listed('these rules would allow what was denied:', rules),
      listed('and these would open addresses that are not public, if that is meant:', inside),
    ].join('')
  }

  /** The same for programs. */
  report(policy: Policy, nowMs: number): AuditReport {
    const lines = this.#sorted()
    const { rules, inside } = suggestionsFor(lines, policy, nowMs)
    return {
      lines: lines.map(({ port, ...line }) => ({ ...line, ...(port !== 0 && { port }) })),
      rules: rules.map(unquoted),
      inside: inside.map(unquoted),
    }
  }

  #sorted(): AuditLine[] {
    return [...this.#lines.values()].toSorted((one, other) =>
      one.verdict.localeCompare(other.verdict),
    )
  }

  #count(line: Omit<AuditLine, 'times'>): void {
    const key = JSON.stringify(line)
    const known = this.#lines.get(key)
    if (known !== undefined) known.times++
    else if (this.#lines.size < MAX_LINES) this.#lines.set(key, { ...line, times: 1 })
    else this.#left++
  }
}

/** What a rule without ports allows. */
const USUAL_PORTS = [80, 443]

/** Stands for the port of what was only looked up. */
const ANY_PORT = 443

const HEAD = ['verdict', 'host', 'port', 'times', 'rule or reason']

function placeOf({ host, port }: { readonly host: string; readonly port: number }) {
  return { host, port }
}

/** Each once; what opens addresses that are not public apart from the others, and nothing that opens a cloud's metadata. */
function suggestionsFor(lines: readonly AuditLine[], policy: Policy, nowMs: number) {
  const rules = new Set<string>()
  const inside = new Set<string>()
  for (const line of lines) {
    if (line.reason === 'metadata-address' || isOwn(line.host, policy)) continue
    const rule = suggestionFor(line, policy, nowMs)
    if (rule !== undefined) (line.reason === 'special-address' ? inside : rules).add(rule)
  }
  // A rule without ports is for those that are usual.
  for (const rule of rules) {
    for (const port of USUAL_PORTS) rules.delete(rule.replace(/"$/, `:${port}"`))
  }
  return { rules: [...rules], inside: [...inside] }
}

/** True for addresses that are the command's own, or stand for names: a rule for one would be for nobody. */
function isOwn(host: string, { door }: Policy): boolean {
  const ip = parseIpv4(host)
  if (ip === undefined) return host === '::1'
  return classifyIp(ip).kind === 'loopback' || cidrContains(door.syntheticRange, ip)
}

/** A rule as a text; one that is more than a pattern stays as a file has it. */
function unquoted(rule: string): string {
  return rule.startsWith('"') ? (JSON.parse(rule) as string) : rule
}

function listed(title: string, rules: readonly string[]): string {
  return rules.length === 0 ? '' : `${title}\n${rules.map((rule) => `  - ${rule}\n`).join('')}`
}

/** The rule that would allow a denied line; undefined if none can. */
function suggestionFor(
  { verdict, host, port, reason }: AuditLine,
  policy: Policy,
  nowMs: number,
): string | undefined {
  if (verdict === 'allowed') return undefined
  const isIpv6 = host.includes(':') && !host.startsWith('[')
  const target = parseTarget(`${isIpv6 ? `[${host}]` : host}:${port === 0 ? ANY_PORT : port}`)
  const { decision, suggestion } = explain(policy, target, nowMs)
  if (decision.verdict === 'deny') {
    // Without a port the rule is for all that a file has.
    return port === 0 ? suggestion?.replace(`:${ANY_PORT}`, '') : suggestion
  }
  if (port === 0) return undefined
  // Its addresses were refused, or what came of the dial.
  return suggestRule({ verdict: 'deny', reason: reason as DenyReason }, target)
}
