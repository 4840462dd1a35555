import { randomBytes } from 'node:crypto'

/** A word that nobody can guess. */
export function randomWord(): string {
  return randomBytes(12).toString('hex')
}
