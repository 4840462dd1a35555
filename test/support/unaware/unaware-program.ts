import path from 'node:path'
import { DENIED, OTHER_PORT, WEB } from './far-side.ts'
import type { Program } from './program-runner.ts'

/** What a program is used for: to be served, or to be refused a name, or a port. */
export type Use = 'allowed' | 'name' | 'port'

/** A program that knows of no proxy, as docs/clients.md has it. */
export interface UnawareProgram {
  /** Its row. */
  readonly name: string
  readonly version: { readonly words: readonly string[]; readonly pattern: RegExp }
  /** The name that it is to reach, and its port. */
  readonly host: string
  readonly port: number
  /** A port on which {@link WEB} is refused. */
  readonly otherPort: number
  /** What it has to print, or to show somewhere in what it prints. */
  readonly shows: string | RegExp
  /** A use of it, for a host and a port. */
  readonly ask: (host: string, port: number, use: Use) => Program
}

/** What every program is refused: a name that nobody allows, and a port that is another name's. */
export const REFUSALS = [
  { column: 'name', host: DENIED, port: ({ port }: UnawareProgram) => port },
  { column: 'port', host: WEB, port: ({ otherPort }: UnawareProgram) => otherPort },
] as const

/** The ports of programs that speak TLS. */
export const TLS_PORTS = { port: 443, otherPort: OTHER_PORT } as const

/** The URL of a host over TLS. */
export function urlOf(host: string, port: number): string {
  return port === 443 ? `https://${host}` : `https://${host}:${port}`
}

/** Where files of a workspace are. */
export interface Place {
  readonly workspace: string
  /** The file of the authority that signed what the servers show. */
  readonly ca: string
  readonly at: (name: string) => string
}

export function placeIn(workspace: string): Place {
  const at = (name: string) => path.join(workspace, name)
  return { workspace, at, ca: at('ca.pem') }
}
