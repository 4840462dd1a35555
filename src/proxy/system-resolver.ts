import type { Resolver } from './resolver.ts'

/**
 * Asks the system's resolver (getaddrinfo) for all addresses of both families, as an absolute name. What it takes is loaded
 * with the first name: most runs never ask for one.
 */
export const systemResolver: Resolver = async (name) => {
  const { lookup } = await import('node:dns/promises')
  return lookup(`${name}.`, { all: true, verbatim: true })
}
