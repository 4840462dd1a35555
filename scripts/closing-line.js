// Adds up the summaries that tap printed into a log, and says them in one line. In CI a skipped test is a failure: the
// tool that it needs has to be installed.
import { readFileSync } from 'node:fs'

const log = readFileSync(process.argv[2] ?? '', 'utf8')
const sums = { pass: 0, fail: 0, skip: 0, todo: 0 }
for (const [, body] of log.matchAll(/^# \{ (total: .*) \}$/gm)) {
  for (const [, name, count] of body.matchAll(/(\w+): (\d+)/g)) {
    if (name in sums) sums[name] += Number(count)
  }
}
if (sums.pass === 0) throw new Error('no test ran')
process.stdout.write(`${sums.pass} passed, ${sums.fail} failed, ${sums.skip} skipped\n`)
process.exitCode = sums.fail + sums.skip + sums.todo > 0 ? 1 : 0
