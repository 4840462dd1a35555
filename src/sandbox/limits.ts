import { escapeControls } from '../errors.ts'

/** What a container may take of the machine. */
export interface ContainerLimits {
  /** In bytes; 0: no limit. */
  readonly memoryBytes: number
  /** Processes and threads; 0: no limit. */
  readonly pids: number
  /** One line for each variable that cannot be used. */
  readonly warnings: readonly string[]
}

const DEFAULT_PIDS = 4096
const UNITS: Readonly<Record<string, number>> = { k: 1024, m: 1024 ** 2, g: 1024 ** 3 }
/** Engines refuse less. */
const LEAST_MEMORY = 6 * 1024 ** 2

/**
 * Reads `ITERION_SANDBOX_MEMORY` (bytes, or with k, m, g; default: three quarters of the machine's memory) and
 * `ITERION_SANDBOX_PIDS` (default: 4096); 0 is no limit. A value that cannot be used gives one line of warning, and the
 * default applies.
 *
 * @param machineBytes the memory of the machine
 */
export function readLimits(
  env: Readonly<Partial<Record<string, string>>>,
  machineBytes: number,
): ContainerLimits {
  const warnings: string[] = []
  const read = (
    name: string,
    fallback: number,
    form: string,
    parse: (text: string) => number | undefined,
  ) => {
    const text = env[name]
    if (text === undefined) return fallback
    const value = parse(text)
    if (value !== undefined) return value
    const shown = escapeControls(JSON.stringify(text.slice(0, 64)))
    warnings.push(`${name}=${shown} is no ${form}; the default ${fallback} applies`)
    return fallback
  }
  const memoryBytes = read(
    'ITERION_SANDBOX_MEMORY',
    Math.floor((machineBytes * 3) / 4),
    'number of bytes, such as 512m or 4g',
    parseBytes,
  )
  const pids = read('ITERION_SANDBOX_PIDS', DEFAULT_PIDS, 'number of processes', (text) =>
    /^\d{1,7}$/.test(text) ? Number(text) : undefined,
  )
  return { memoryBytes, pids, warnings }
}

function parseBytes(text: string): number | undefined {
  const match = /^(\d{1,15})([kmg]?)$/i.exec(text)
  if (match === null) return undefined
  const bytes = Number(match[1]) * (UNITS[(match[2] ?? '').toLowerCase()] ?? 1)
  return bytes === 0 || (bytes >= LEAST_MEMORY && bytes <= Number.MAX_SAFE_INTEGER)
    ? bytes
    : undefined
}
