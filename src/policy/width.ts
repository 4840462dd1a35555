import { getPublicSuffix } from 'tldts'
import { isWildcard, literalEnd, type NamePattern } from './pattern.ts'

/** True if the pattern spans names of different owners: it ends in a public suffix (ICANN section), or in nothing. */
export function spansPublicSuffix(pattern: NamePattern): boolean {
  return isWildcard(pattern) && endsInSuffix(pattern, false)
}

/** True if the pattern spans a zone whose children anybody can rent (the private section of the public suffix list). */
export function spansRentedZone(pattern: NamePattern): boolean {
  return isWildcard(pattern) && endsInSuffix(pattern, true)
}

function endsInSuffix(pattern: NamePattern, allowPrivateDomains: boolean): boolean {
  const suffix = literalEnd(pattern)
  if (suffix === '') return true
  return getPublicSuffix(suffix, { allowPrivateDomains, validateHostname: false }) === suffix
}
