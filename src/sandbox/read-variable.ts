import { EgressError } from '../errors.ts'

/**
 * The value of a variable that has a few known ones; undefined if it is not set. An unknown value, the empty one too, is
 * never taken for none.
 *
 * @throws {EgressError} OPTION_INVALID
 */
export function readVariable<T extends string>(
  name: string,
  text: string | undefined,
  choices: readonly T[],
): T | undefined {
  if (text === undefined) return undefined
  const found = choices.find((one) => one === text)
  if (found !== undefined) return found
  throw new EgressError(
    'OPTION_INVALID',
    `${name}=${JSON.stringify(text)}: expected ${choices.join(' or ')}`,
  )
}
