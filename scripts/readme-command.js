// Prints a command of the README, so that CI runs the very line that a newcomer is told to type:
//   node scripts/readme-command.js test | start
import { readFileSync } from 'node:fs'

const text = readFileSync(new URL('../README.md', import.meta.url), 'utf8')
const wanted = process.argv[2] ?? ''
const command = text
  .split('\n')
  .find((line) => line.startsWith('npm ') && line.endsWith(`npm ${wanted}`))
if (command === undefined) throw new Error(`the README has no command that ends in: npm ${wanted}`)
process.stdout.write(`${command}\n`)
