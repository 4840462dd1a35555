import { readFileSync } from 'node:fs'
import { EgressError } from '../errors.ts'

/** Every bound of a proxy. 0 turns one off, unless its text says otherwise. */
export interface Limits {
  /** Bytes of a request head. Default 16,384. Cannot be turned off. */
  readonly maxHeadBytes: number
  /** Milliseconds for a whole request head, from the first byte or the connection. Default 10,000. */
  readonly headTimeoutMs: number
  /** Milliseconds for a name look-up. Default 5,000. */
  readonly resolveTimeoutMs: number
  /** Milliseconds for all attempts to connect to one target. Default 10,000. */
  readonly dialTimeoutMs: number
  /** Milliseconds from the first byte in a tunnel until it can be judged. Default 10,000. */
  readonly firstFlightTimeoutMs: number
  /** Tunnels at a time. Default 10,000; never more than the descriptor limit of the process bears. */
  readonly maxTunnels: number
  /** Tunnels at a time of one client address. Default 0 (off). */
  readonly maxTunnelsPerClient: number
  /** Milliseconds that `close` gives what is under way. Default 10,000; 0 ends it at once. */
  readonly drainTimeoutMs: number
  /** Milliseconds without a byte either way before a tunnel is closed. Default 0 (off). */
  readonly tunnelIdleMs: number
  /** Milliseconds without a byte of a plain HTTP response before it is given up. Default 0 (off). */
  readonly responseIdleMs: number
}

export const DEFAULT_LIMITS: Limits = {
  maxHeadBytes: 16_384,
  headTimeoutMs: 10_000,
  resolveTimeoutMs: 5_000,
  dialTimeoutMs: 10_000,
  firstFlightTimeoutMs: 10_000,
  maxTunnels: 10_000,
  maxTunnelsPerClient: 0,
  drainTimeoutMs: 10_000,
  tunnelIdleMs: 0,
  responseIdleMs: 0,
}

/** Descriptors that a process needs for other things than tunnels. */
const DESCRIPTOR_RESERVE = 64
/** The longest that a timer of Node waits: a longer one would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1

/**
 * Fills in the defaults, for this process. What the caller gives goes before what the policy gives.
 *
 * @throws {EgressError} OPTION_INVALID for an unknown name, a value that is no whole number from 0, or a time that no
 * timer can wait
 */
export function resolveLimits(given: GivenLimits, fromPolicy: GivenLimits): Limits {
  const wanted = joinLimits(given, fromPolicy)
  const bearable = Math.max(1, Math.floor((descriptorLimit() - otherDescriptors()) / 2))
  const { maxTunnels } = wanted
  return { ...wanted, maxTunnels: maxTunnels === 0 ? bearable : Math.min(maxTunnels, bearable) }
}

/** Limits by their names. */
export type GivenLimits = Readonly<Partial<Record<string, number>>>

/**
 * The limits that are wanted, whatever the descriptors of a process bear: `maxTunnels` is 0 if there shall be none.
 *
 * @throws {EgressError} OPTION_INVALID as {@link resolveLimits}
 */
export function joinLimits(given: GivenLimits, fromPolicy: GivenLimits): Limits {
  const limits: Record<string, number> = { ...DEFAULT_LIMITS }
  for (const [name, value] of [...Object.entries(fromPolicy), ...Object.entries(given)]) {
    if (!Object.hasOwn(DEFAULT_LIMITS, name)) {
      throw new EgressError('OPTION_INVALID', `there is no limit ${JSON.stringify(name)}`)
    }
    if (value === undefined) continue
    if (!Number.isSafeInteger(value) || value < 0 || (name === 'maxHeadBytes' && value === 0)) {
      throw new EgressError(
        'OPTION_INVALID',
        `the limit ${name} has to be a whole number from ${name === 'maxHeadBytes' ? 1 : 0}, not ${value}`,
      )
    }
    if (name.endsWith('Ms') && value > MAX_TIMER_MS) {
      throw new EgressError('OPTION_INVALID', `the limit ${name} has to be ${MAX_TIMER_MS} at most`)
    }
    limits[name] = value
  }
  return limits as unknown as Limits
}

/**
 * Client connections without a tunnel that are served besides the tunnels, and as many upstream connections that wait for
 * their next request: 256 each, fewer where the process may have few descriptors.
 */
export function spareConnections(): number {
  return Math.min(256, Math.floor(descriptorLimit() / 8))
}

/** What is needed besides tunnels: a spare connection may have an upstream of its own, and another one waiting. */
function otherDescriptors(): number {
  return DESCRIPTOR_RESERVE + 3 * spareConnections()
}

/** How many files and sockets this process may have open; a tunnel takes two. */
function descriptorLimit(): number {
  try {
    const line = /^Max open files\s+(\d+|unlimited)/m.exec(
      readFileSync('/proc/self/limits', 'utf8'),
    )?.[1]
    return line === undefined || line === 'unlimited' ? 1_048_576 : Number(line)
  } catch {
    return 1024
  }
}
