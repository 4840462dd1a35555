import type { DoorPlan } from './door-plan.ts'
import { runProgram, systemSpawner } from './spawn.ts'

// What the system is told inside a namespace, by the programs of this machine: which addresses lead to `lo`, and which port
// of theirs is which socket.

const TIMEOUT_MS = 5_000

/** A port of the sandbox's programs, and the port of the socket that serves it. */
export interface Redirect {
  readonly from: number
  readonly to: number
}

type Env = Readonly<Partial<Record<string, string>>>

/** The lines for `ip -batch`: the resolver's address is one of `lo`, and addresses that are not lead there. */
export function ipLines({ stub, range, isLoopback, routes }: DoorPlan): string[] {
  const led = isLoopback ? routes : [{ family: 4, cidr: range }, ...routes]
  return [
    // glibc asks for IPv4 addresses only where `lo` has one besides 127.0.0.1.
    `address add ${stub}/32 dev lo`,
    ...led.map(({ cidr }) => `route add local ${cidr} dev lo`),
  ]
}

/** The input of `iptables-restore`, or of `ip6tables-restore`; undefined: there is nothing to say. */
export function natLines(
  family: 4 | 6,
  { stub, range, routes }: DoorPlan,
  redirects: readonly Redirect[],
): string | undefined {
  const lines: string[] = []
  const lead = (cidr: string, { from, to }: Redirect) =>
    lines.push(`-A OUTPUT -d ${cidr} -p tcp --dport ${from} -j DNAT --to-destination :${to}`)
  if (family === 4) for (const one of redirects) lead(range, one)
  for (const { cidr, ports } of routes.filter((route) => route.family === family)) {
    for (const one of redirects) if (ports.includes(one.from)) lead(cidr, one)
  }
  if (lines.length === 0) return undefined
  // The resolver lies in the range, and is itself on every port.
  if (family === 4) lines.unshift(`-A OUTPUT -d ${stub}/32 -j ACCEPT`)
  return ['*nat', ...lines, 'COMMIT', ''].join('\n')
}

/** Leads the addresses of a plan to `lo`; a text says why not. */
export function leadHere(plan: DoorPlan, env: Env): Promise<string | undefined> {
  const input = `${ipLines(plan).join('\n')}\n`
  return tell('ip', ['-batch', '-'], input, env)
}

/** Brings connections of one family to the ports of a plan to other ports, with the address kept; a text says why not. */
export async function redirect(
  family: 4 | 6,
  plan: DoorPlan,
  redirects: readonly Redirect[],
  env: Env,
): Promise<string | undefined> {
  const input = natLines(family, plan, redirects)
  const program = family === 4 ? 'iptables-restore' : 'ip6tables-restore'
  return input === undefined ? undefined : tell(program, ['--noflush', '-w', '2'], input, env)
}

async function tell(
  program: string,
  args: readonly string[],
  input: string,
  env: Env,
): Promise<string | undefined> {
  try {
    const options = { env, input, timeoutMs: TIMEOUT_MS }
    const { code, stderr } = await runProgram(systemSpawner, program, args, options)
    if (code === 0) return undefined
    return `${program}: ${stderr.trim().split('\n')[0] ?? `ended with ${code}`}`
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}
