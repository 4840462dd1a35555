// What `wrap` costs beyond the command itself: pairs of the bare command and of the sealed one, interleaved.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { median, timeOf } from './support/pairs.js'

const PAIRS = 20
/** The most that a sealed command may take beyond the bare one, in milliseconds, as the median of the pairs. */
const MOST = 250

const PROGRAM = path.resolve(import.meta.dirname, '../../bin/iterion-egress.js')
const COMMAND = ['true']
const WRAP = [process.execPath, PROGRAM, 'wrap', '--preset', 'none', '--']

/** Runs the benchmark. Answers 1 if the median is over its bound, 4 if nothing can be sealed here. */
export async function main(args) {
  const folder = mkdtempSync(path.join(tmpdir(), 'bench-'))
  try {
    const result = await measure(folder)
    process.stdout.write(args.includes('--json') ? `${JSON.stringify(result)}\n` : lines(result))
    return result.median > MOST ? 1 : 0
  } catch (error) {
    process.stderr.write(`${error.message}\n`)
    return 4
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

async function measure(folder) {
  const bare = []
  const differences = []
  // The first round warms caches and does not count.
  for (let round = 0; round <= PAIRS; round++) {
    const env = { PATH: process.env.PATH, HOME: folder }
    const alone = await timeOf(COMMAND, folder, env)
    const sealed = await timeOf([...WRAP, ...COMMAND], folder, env)
    if (round === 0) continue
    bare.push(alone)
    differences.push(sealed - alone)
  }
  return {
    date: new Date().toISOString(),
    pairs: PAIRS,
    bare_ms: Math.round(median(bare)),
    median: Math.round(median(differences)),
    low: Math.round(Math.min(...differences)),
    high: Math.round(Math.max(...differences)),
    most: MOST,
  }
}

function lines({ pairs, bare_ms: bare, median: mid, low, high, most }) {
  const verdict = mid > most ? 'OVER' : 'ok'
  return `true: ${bare} ms; \`wrap --preset none -- true\` beyond it, median of ${pairs} pairs:
+${mid} ms  (${low} to ${high})  at most ${most}: ${verdict}
`
}
