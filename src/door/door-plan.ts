import { type Cidr, cidrContains, cidrCovers, formatCidr } from '../policy/address.ts'
import { classifyIp } from '../policy/address-kind.ts'
import type { Policy } from '../policy/policy.ts'
import { normalizePorts, type PortRange, portsContain } from '../policy/ports.ts'
import type { PlacedRule } from '../policy/rule-bucket.ts'
import { stubAddress } from './synthetic-names.ts'

/** A range of ports that is wider than this is reached through the proxy port alone. */
const MAX_RANGE = 64
/** Ports that a door serves without a word: each is a socket, and a rule of the system. */
const MAX_PORTS = 128
/** Ranges of addresses that lead to a door, and pairs of a range and a port. */
const MAX_ROUTES = 128
const MAX_PAIRS = 512
/** Served although only a rule without bounds allows them: everybody expects a name to answer there. */
const USUAL_PORTS = [80, 443]
const LOOPBACK = { first: { family: 4, words: [0x7f00_0000] }, bits: 8 } as const
const LOOPBACK_6 = { family: 6, words: [0, 0, 0, 1] } as const

/** A range of addresses that is led to the door, for what address rules allow. */
export interface DoorRoute {
  readonly family: 4 | 6
  readonly cidr: string
  readonly ports: readonly number[]
}

/** What a door opens inside a sandbox, beside the proxy's own port. A plain value: it goes to other processes. */
export interface DoorPlan {
  /** Where the resolver of the sandbox listens, on port 53. */
  readonly stub: string
  /** The addresses that stand for names. */
  readonly range: string
  /** True if the addresses are those of `lo` without being led there. */
  readonly isLoopback: boolean
  /** The ports on which connections are served that know of no proxy. */
  readonly ports: readonly number[]
  readonly routes: readonly DoorRoute[]
}

/** What a policy allows that only clients of the proxy port reach. */
export interface OnlyByProxy {
  readonly ports: readonly PortRange[]
  /** Address rules that lead nowhere without it, as written. */
  readonly addresses: readonly string[]
}

/** What a door opens for a policy, and what it leaves to the proxy port. */
export function planDoor(policy: Policy): DoorPlan & { readonly onlyByProxy: OnlyByProxy } {
  const { syntheticRange: range } = policy.door
  const allows = policy.rules.filter(({ effect }) => effect === 'allow')
  const { ports, left } = choosePorts(policy, allows)
  const { routes, left: addresses } = chooseRoutes(allows, ports, range)
  return {
    stub: stubAddress(range),
    range: formatCidr(range),
    isLoopback: cidrCovers(LOOPBACK, range),
    ports,
    routes,
    onlyByProxy: { ports: left, addresses },
  }
}

function choosePorts(
  { mode }: Policy,
  allows: readonly PlacedRule[],
): { ports: number[]; left: readonly PortRange[] } {
  const ranges = normalizePortsOf(allows)
  if (mode !== 'allowlist') ranges.push({ low: 1, high: 65535 })
  const isWide = ({ low, high }: PortRange) => high - low >= MAX_RANGE
  const wide = ranges.filter(isWide)
  const chosen = new Set(USUAL_PORTS.filter((port) => portsContain(wide, port)))
  const left = [...wide]
  for (const range of ranges.filter((one) => !isWide(one))) {
    const { low, high } = range
    const ports = Array.from({ length: high - low + 1 }, (_, i) => low + i)
    if (chosen.size + ports.filter((port) => !chosen.has(port)).length > MAX_PORTS) {
      left.push(range)
      continue
    }
    for (const port of ports) chosen.add(port)
  }
  return { ports: [...chosen].toSorted((a, b) => a - b), left: normalizePorts(left) }
}

/** The ranges of all rules, each once. They are not joined: a wide one would swallow those beside it. */
function normalizePortsOf(rules: readonly PlacedRule[]): PortRange[] {
  const seen = new Map<string, PortRange>()
  for (const { ports } of rules) {
    for (const range of ports) seen.set(`${range.low}-${range.high}`, range)
  }
  return [...seen.values()].toSorted((a, b) => a.low - b.low || a.high - b.high)
}

function chooseRoutes(
  allows: readonly PlacedRule[],
  ports: readonly number[],
  range: Cidr,
): { routes: DoorRoute[]; left: string[] } {
  const byCidr = new Map<string, { cidr: Cidr; ports: Set<number> }>()
  const left: string[] = []
  let pairs = 0
  for (const { pattern, ports: ranges, text } of allows) {
    if (pattern.kind !== 'ip') continue
    const { cidr } = pattern
    const known = byCidr.get(pattern.text)
    const served = ports.filter((port) => portsContain(ranges, port))
    const isFull = pairs + served.length > MAX_PAIRS || (!known && byCidr.size === MAX_ROUTES)
    if (served.length === 0 || isFull || !canLead(cidr, range)) {
      left.push(text)
      continue
    }
    pairs += served.length
    const route = known ?? { cidr, ports: new Set<number>() }
    for (const port of served) route.ports.add(port)
    byCidr.set(pattern.text, route)
  }
  const routes = [...byCidr.values()].map(({ cidr, ports: all }) => ({
    family: cidr.first.family,
    cidr: formatCidr(cidr),
    ports: [...all].toSorted((a, b) => a - b),
  }))
  return { routes, left }
}

/** False for addresses that are the sandbox itself, or stand for names, or that no program connects to. */
function canLead(cidr: Cidr, range: Cidr): boolean {
  const { kind } = classifyIp(cidr.first)
  if (kind === 'loopback' || kind === 'multicast') return false
  const overlaps = cidrContains(cidr, range.first) || cidrContains(range, cidr.first)
  return !overlaps && !cidrContains(cidr, LOOPBACK.first) && !cidrContains(cidr, LOOPBACK_6)
}
