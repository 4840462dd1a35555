// Prints the assertions that failed out of a log of tap, with what tap says of each, and the files that they are in.
import { readFileSync } from 'node:fs'

const lines = readFileSync(process.argv[2] ?? '', 'utf8').split('\n')
const failed = lines.flatMap((line, index) => (/^\s*not ok /.test(line) ? [index] : []))
for (const index of failed.slice(0, 40)) {
  const indent = /^\s*/.exec(lines[index] ?? '')?.[0] ?? ''
  const end = lines.indexOf(`${indent}  ...`, index)
  const last =
    lines[index + 1] === `${indent}  ---` && end !== -1 ? Math.min(end, index + 30) : index
  process.stdout.write(`${lines.slice(index, last + 1).join('\n')}\n`)
}
if (failed.length > 0) process.stdout.write(`${failed.length} lines of the log say "not ok"\n`)
