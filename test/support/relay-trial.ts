// Puts the relay beside it under load and says what was wrong, as a program: the mutants of the relay are run by it.
import type { Test } from 'tap'
import { openBareRelay, openProxyRelay } from './relay-lines.ts'
import { loadEarly, loadHeld, loadMixed, loadTorn } from './relay-load.ts'

const problems: string[] = []
const test = {
  teardown: () => undefined,
  fail: (problem: string) => problems.push(problem),
} as unknown as Test

const loads: Record<string, () => Promise<string[]>> = {
  early: async () => loadEarly(await openProxyRelay(test), 64),
  mixed: async () => loadMixed(await openBareRelay(test), 16, 20_000_000),
  tunnels: async () => loadMixed(await openProxyRelay(test), 16, 20_000_000),
  torn: async () => loadTorn(await openBareRelay(test, { isTied: false }), 25),
  little: async () => loadHeld(await openBareRelay(test), 12, 'medium'),
  // A relay may change how it reads at every one of them.
  turning: async () => loadHeld(await openBareRelay(test), 24, 'turning'),
}
const wanted = process.argv.slice(2)
for (const [name, load] of Object.entries(loads)) {
  const isWanted = wanted.length === 0 || wanted.includes(name)
  if (isWanted && problems.length === 0) problems.push(...(await load()))
}
process.stdout.write(`${problems.join('\n')}\n`)
process.exit(problems.length === 0 ? 0 : 3)
