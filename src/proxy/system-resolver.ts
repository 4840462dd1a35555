import type { Resolver } from './resolver.ts'

/**
 * Asks the system's resolver for all addresses of a name. What that takes is loaded with the first name: an open run asks
 * for none.
 */
export const systemResolver: Resolver = async (name) => {
  const { lookUp } = await import('./look-up.ts')
  return lookUp(name)
}
