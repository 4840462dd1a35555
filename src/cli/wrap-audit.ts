import type { EgressEvent } from '../events/event.ts'
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
    const { lines, rules } = this.report(policy, nowMs)
    if (lines.length === 0) return 'iterion-egress: nothing was asked of the network\n'
    const rows = lines.map(({ verdict, host, port, times, reason }) =>
      [verdict, host, port === 0 ? '-' : String(port), String(times), reason].map(shownLines),
    )
    const more = this.#left === 0 ? '' : `and ${this.#left} more\n`
    const suggested =
      rules.length === 0
        ? ''
        : `these rules would allow what was denied:\n${rules.map((rule) => `  - ${rule}\n`).join('')}`
    return `iterion-egress: what was asked of the network\n${renderTable([HEAD, ...rows])}${more}${suggested}`
  }

  /** The same for programs. */
  report(
    policy: Policy,
    nowMs: number,
  ): { readonly lines: readonly AuditLine[]; readonly rules: readonly string[] } {
    const lines = [...this.#lines.values()].toSorted((one, other) =>
      one.verdict.localeCompare(other.verdict),
    )
    const rules = lines.flatMap((line) => suggestionFor(line, policy, nowMs) ?? [])
    return { lines, rules: [...new Set(rules)] }
  }

  #count(line: Omit<AuditLine, 'times'>): void {
    const key = JSON.stringify(line)
    const known = this.#lines.get(key)
    if (known !== undefined) known.times++
    else if (this.#lines.size < MAX_LINES) this.#lines.set(key, { ...line, times: 1 })
    else this.#left++
  }
}

/** Stands for the port of what was only looked up. */
const ANY_PORT = 443

const HEAD = ['verdict', 'host', 'port', 'times', 'rule or reason']

function placeOf({ host, port }: { readonly host: string; readonly port: number }) {
  return { host, port }
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
