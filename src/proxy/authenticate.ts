import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { EgressError } from '../errors.ts'

/** A token for one proxy: 32 random bytes in hexadecimal, so that no client needs to escape anything in a URL. */
export function createToken(): string {
  return randomBytes(32).toString('hex')
}

/** Checks the value of a `Proxy-Authorization` field; every field of that name is given. */
export type Authenticator = (fields: readonly string[]) => boolean

/**
 * Makes the check for a token: Basic with any user and the token as password (RFC 7617), or Bearer (RFC 6750); the
 * scheme in any case, exactly one field. Digests are compared, in constant time.
 *
 * @throws {EgressError} OPTION_INVALID for an empty token, or one that cannot stand in a header or a URL
 */
export function createAuthenticator(token: string): Authenticator {
  if (!/^[\w.~-]+$/.test(token)) {
    const what =
      token === '' ? 'is empty' : 'has characters besides letters, digits, ".", "_", "~" and "-"'
    throw new EgressError('OPTION_INVALID', `the token ${what}`)
  }
  const wanted = digest(token)
  return (fields) => {
    const [field, ...more] = fields
    const given = field === undefined || more.length > 0 ? undefined : credential(field)
    return given !== undefined && timingSafeEqual(digest(given), wanted)
  }
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}

function credential(field: string): string | undefined {
  const match = /^([a-z]+) +([\w+/.~-]+=*) *$/i.exec(field)
  const scheme = match?.[1]?.toLowerCase()
  const value = match?.[2] ?? ''
  if (scheme === 'bearer') return value
  if (scheme !== 'basic') return undefined
  const pair = Buffer.from(value, 'base64').toString('utf8')
  const colon = pair.indexOf(':')
  return colon === -1 ? undefined : pair.slice(colon + 1)
}
