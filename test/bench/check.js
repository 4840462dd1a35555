// Every budget within one run each of `policy` and `proxy`: 1 and the ones that fail, if one does.
import { spawnSync } from 'node:child_process'
import path from 'node:path'
import { boundOf, unjudged, valueOf } from './proxy/report.js'

/** Only beside these is there a budget. */
const PEERS = 'ours,squid,proxy-chain,sandbox-runtime'
const FIGURES = 'connect-name,denied,get,one-down,one-up,eight-down,eight-up,latency,idle,workers'

/** Runs the check. `--rounds N` is for the rounds of `proxy`. */
export async function main(args) {
  const policy = run('policy', [])
  const proxy = run('proxy', ['--only', PEERS, '--figures', FIGURES, ...args])
  if (policy === undefined || proxy === undefined) return 4
  const budgets = [
    ...policy.budgets.map(({ what, value, unit, most, verdict }) => ({
      text: `${what}: ${value.toFixed(2)} ${unit}, at most ${most}`,
      verdict,
    })),
    ...proxy.budgets
      .filter(({ verdict }) => verdict !== '')
      .map((one) => ({
        text: `${one.what}: ${valueOf(one).trim()}, ${boundOf(one)}${one.isNoisy ? ' (noisy)' : ''}${one.failed > 0 ? ` (${one.failed} failed)` : ''}`,
        verdict: one.verdict,
      })),
    ...unjudged(proxy.budgets).map(({ what, peer }) => ({
      text: `${what}: no figure beside ${peer}`,
      verdict: 'MISSING',
    })),
  ]
  process.stdout.write(`${proxy.machine}; ${proxy.date}; ${proxy.rounds} rounds\n`)
  for (const { text, verdict } of budgets) process.stdout.write(`${verdict.padEnd(8)}${text}\n`)
  const over = budgets.filter(({ verdict }) => verdict !== 'ok')
  process.stdout.write(`${budgets.length - over.length} of ${budgets.length} budgets are met\n`)
  return over.length > 0 ? 1 : 0
}

function run(name, args) {
  const { stdout } = spawnSync(
    process.execPath,
    [path.join(import.meta.dirname, 'index.js'), name, '--json', ...args],
    { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'], maxBuffer: 64 * 1024 * 1024 },
  )
  try {
    return JSON.parse(stdout)
  } catch {
    process.stderr.write(`${name} gave no figures\n`)
    return undefined
  }
}
