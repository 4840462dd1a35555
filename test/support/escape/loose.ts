import type { Test } from 'tap'
import type { Attempt } from './battery.ts'
import type { Technique } from './technique.ts'

/** The techniques that are tried in a run that is not sealed. */
export function triedIn(where: 'advisory' | 'open', all: readonly Technique[]): Technique[] {
  return all.filter((one) => one[where] === 'out' || 'kept' in one[where])
}

/** Asserts that each technique got out where the table says so, and where it does not that it did not. */
export function assertLoose(
  t: Test,
  where: 'advisory' | 'open',
  techniques: readonly Technique[],
  attempts: readonly Attempt[],
): void {
  const expected = new Map(techniques.map((one) => [one.name, one[where] === 'out']))
  t.strictSame(
    attempts.filter(({ name, out }) => expected.get(name) === true && !out),
    [],
    'what is to get out does',
  )
  t.strictSame(
    attempts.filter(({ name, out }) => expected.get(name) === false && out),
    [],
    'what is kept, for the reason in its table, is',
  )
}
