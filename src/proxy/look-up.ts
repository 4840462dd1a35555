import { lookup } from 'node:dns/promises'
import type { ResolverAnswer } from './resolver.ts'

/** Asks getaddrinfo for all addresses of both families, as an absolute name. */
export function lookUp(name: string): Promise<readonly ResolverAnswer[]> {
  return lookup(`${name}.`, { all: true, verbatim: true })
}
