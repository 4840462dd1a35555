// How the cost of a decision grows with the number of rules, what loading costs, and what a policy weighs.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { compilePolicy } from '../../dist/policy/compile.js'
import { decide } from '../../dist/policy/decide.js'
import { parsePolicy } from '../../dist/policy/parse.js'
import { parseTarget } from '../../dist/policy/target.js'

const SIZES = [10, 200_000]
const ROUNDS = 15
const TARGETS = 2000
const DECISIONS = 100_000
const NOW = Date.UTC(2027, 0, 1)
/** The most that a decision among many rules may cost, in decisions among few; in nanoseconds; and what they may weigh. */
const MOST = { ratio: 3, ns: 500, mebibytes: 100 }
/** A round that is further from the median than this share is marked. */
const SPREAD = 0.15

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc')

/** Rule number i: exact names, suffixes, globs and ranges, of two to five labels. */
function ruleText(i) {
  const zone = `z${i}.${['example', 'b.example', 'c.b.example', 'd.c.b.example'][i % 4]}`
  switch (i % 10) {
    case 0:
    case 1:
    case 2:
    case 3:
      return zone
    case 4:
      return `*.${zone}`
    case 5:
      return `**.${zone}`
    case 6:
      return `api-*.${zone}`
    case 7:
      return `a.*.${zone}:8000-8010`
    case 8:
      return `${20 + (i >>> 16)}.${(i >>> 8) & 255}.${i & 255}.0/24`
    default:
      return `!**.x.${zone}`
  }
}

/** A target that rule number i has something to say about. */
function targetText(i) {
  const zone = `z${i}.${['example', 'b.example', 'c.b.example', 'd.c.b.example'][i % 4]}`
  switch (i % 10) {
    case 4:
      return `one.${zone}`
    case 5:
      return `two.one.${zone}`
    case 6:
      return `api-7.${zone}`
    case 7:
      return `a.b.${zone}:8001`
    case 8:
      return `${20 + (i >>> 16)}.${(i >>> 8) & 255}.${i & 255}.9`
    case 9:
      return `y.x.${zone}`
    default:
      return zone
  }
}

function median(numbers) {
  const sorted = numbers.toSorted((a, b) => a - b)
  return sorted[sorted.length >> 1]
}

function heapUsed() {
  collectGarbage()
  return process.memoryUsage().heapUsed
}

function timeMs(action) {
  const started = performance.now()
  const result = action()
  return { result, ms: performance.now() - started }
}

/** Loads a policy of so many rules and makes targets for it: half of them hit a rule, half hit none. */
function prepare(size) {
  const rules = Array.from({ length: size }, (_, i) => `  - "${ruleText(i)}"`)
  const text = `rules:\n${rules.join('\n')}\n`
  const before = heapUsed()
  const parsed = timeMs(() => parsePolicy(text, 'bench.yaml'))
  const parts = { mode: parsed.result.mode, rules: parsed.result.rules }
  const compiled = timeMs(() => compilePolicy(parts))
  const policy = compiled.result
  parsed.result = undefined
  parts.rules = undefined
  const heapBytes = heapUsed() - before
  const targets = Array.from({ length: TARGETS }, (_, i) => {
    const hit = targetText(Math.floor((i * size) / TARGETS))
    return parseTarget(
      i % 2 === 0 ? hit : `no-${i}.${hit.includes('.example') ? hit : `${hit}.example`}`,
    )
  })
  return {
    size,
    policy,
    targets,
    textBytes: text.length,
    loadMs: parsed.ms + compiled.ms,
    compileMs: compiled.ms,
    heapBytes,
    ns: [],
  }
}

/** Nanoseconds per decision of one round. */
function round({ policy, targets }) {
  let allowed = 0
  const started = process.hrtime.bigint()
  for (let i = 0; i < DECISIONS; i++) {
    if (decide(policy, targets[i % TARGETS], NOW).verdict === 'allow') allowed++
  }
  const elapsed = Number(process.hrtime.bigint() - started)
  if (allowed === 0) throw new Error('no target was allowed: the benchmark measures nothing')
  return elapsed / DECISIONS
}

function summary(subject) {
  const middle = median(subject.ns)
  return {
    rules: subject.size,
    nsPerDecision: Math.round(middle),
    rounds: subject.ns.map((ns) => ({
      ns: Math.round(ns),
      isOff: Math.abs(ns - middle) > SPREAD * middle,
    })),
    spread: (Math.max(...subject.ns) - Math.min(...subject.ns)) / middle,
    textBytes: subject.textBytes,
    loadMs: subject.loadMs,
    compileMs: subject.compileMs,
    heapBytes: subject.heapBytes,
  }
}

function printed(result) {
  const { rules, nsPerDecision, rounds, spread, textBytes, loadMs, compileMs, heapBytes } = result
  const off = rounds.filter(({ isOff }) => isOff).length
  const marks = rounds.map(({ ns, isOff }) => (isOff ? `${ns}!` : `${ns}`)).join(' ')
  return [
    `${rules} rules: ${nsPerDecision} ns per decision (median of ${ROUNDS} rounds, spread ${(spread * 100).toFixed(0)} %)`,
    `  rounds: ${marks}${off > 0 ? `   (! = more than 15 % from the median: ${off})` : ''}`,
    `  load ${loadMs.toFixed(1)} ms (YAML of ${textBytes} bytes to policy), of that compile ${compileMs.toFixed(1)} ms`,
    `  heap ${(heapBytes / 1024 / 1024).toFixed(1)} MiB`,
  ].join('\n')
}

/** @param {readonly string[]} args */
export async function main(args) {
  prepare(1000) // Warms the parser up.
  const subjects = SIZES.map(prepare)
  for (const subject of subjects) for (let i = 0; i < 3; i++) round(subject)
  for (let i = 0; i < ROUNDS; i++) for (const subject of subjects) subject.ns.push(round(subject))
  const results = subjects.map(summary)
  const many = results[1]
  const ratio = many.nsPerDecision / results[0].nsPerDecision
  const mebibytes = many.heapBytes / 1024 ** 2
  const budgets = [
    { what: `decide with ${many.rules} rules`, value: ratio, unit: 'x 10 rules', most: MOST.ratio },
    {
      what: `decide with ${many.rules} rules`,
      value: many.nsPerDecision,
      unit: 'ns',
      most: MOST.ns,
    },
    { what: `memory of ${many.rules} rules`, value: mebibytes, unit: 'MiB', most: MOST.mebibytes },
  ].map((budget) => ({ ...budget, verdict: budget.value > budget.most ? 'OVER' : 'ok' }))
  if (args.includes('--json')) {
    process.stdout.write(`${JSON.stringify({ node: process.version, results, ratio, budgets })}\n`)
  } else {
    const lines = budgets.map(
      ({ what, value, unit, most, verdict }) =>
        `${what}: ${Number(value.toFixed(2))} ${unit}, at most ${most}: ${verdict}`,
    )
    process.stdout.write(
      `${results.map(printed).join('\n')}\n${lines.join('\n')} (Node.js ${process.version})\n`,
    )
  }
  // A time by itself is the machine's: `check` judges it, on a machine that is left alone.
  return budgets.every(({ verdict, unit }) => verdict === 'ok' || unit === 'ns') ? 0 : 1
}
