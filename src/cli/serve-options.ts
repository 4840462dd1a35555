import { EgressError } from '../errors.ts'
import { parseHost } from '../policy/host.ts'
import { parsePort, splitAuthority } from '../policy/target.ts'
import { readSource } from '../presets/read-source.ts'
import type { ListenAddress } from '../proxy/egress-proxy.ts'
import type { GivenLimits } from '../proxy/limits.ts'
import type { RelayKind } from '../proxy/sockets.ts'
import type { Io } from './io.ts'
import type { PolicyOptions } from './policy-flags.ts'

const MOST_WORKERS = 64

/** The options of `serve`, as they are typed. */
export interface ServeOptions extends PolicyOptions {
  readonly listen: string
  readonly events?: string
  readonly token?: string
  readonly tokenFile?: string
  readonly insecureNoAuth?: boolean
  readonly readyFile?: string
  readonly audit?: boolean
  readonly relay?: RelayKind
  readonly runId?: string
  readonly limit: readonly string[]
  readonly resolve: readonly string[]
  readonly workers: string
  readonly json?: boolean
}

/** Where to listen: HOST:PORT, or a port of this machine. */
export function parseListen(text: string): ListenAddress {
  const { host, port } = /^\d+$/.test(text)
    ? { host: '127.0.0.1', port: text }
    : splitAuthority(text)
  const number = port === '0' ? 0 : parsePort(port ?? '')
  const parsed = parseHost(host)
  if (number === undefined || parsed.kind === 'bad') {
    throw new EgressError(
      'USAGE',
      `--listen ${JSON.stringify(text)}: the form is HOST:PORT, for example 127.0.0.1:3128`,
    )
  }
  return { host: parsed.kind === 'ip' ? parsed.text : parsed.name, port: number }
}

/** The token from a file, the command line or the environment, in that order. */
export function readToken(io: Io, { token, tokenFile }: ServeOptions): string | undefined {
  if (token !== undefined && tokenFile !== undefined) {
    throw new EgressError('USAGE', 'give either --token or --token-file')
  }
  if (tokenFile !== undefined) return readSource(tokenFile).replace(/\r?\n$/, '')
  return token ?? io.env['ITERION_EGRESS_TOKEN']
}

/** The values of `--limit`, by their names. */
export function parseLimits(texts: readonly string[]): GivenLimits {
  const limits: Partial<Record<string, number>> = {}
  for (const text of texts) {
    const match = /^(\w+)=(\d{1,10})$/.exec(text)
    if (match === null)
      throw new EgressError('USAGE', `--limit ${JSON.stringify(text)}: the form is NAME=NUMBER`)
    limits[match[1] ?? ''] = Number(match[2])
  }
  return limits
}

/** How many processes serve. */
export function parseWorkers(text: string): number {
  const workers = /^\d{1,2}$/.test(text) ? Number(text) : 0
  if (workers >= 1 && workers <= MOST_WORKERS) return workers
  throw new EgressError(
    'USAGE',
    `--workers ${JSON.stringify(text)}: give a whole number from 1 to ${MOST_WORKERS}, for example one for each processor`,
  )
}
