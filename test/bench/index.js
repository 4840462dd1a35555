// Runs one benchmark by its name over the built package: node test/bench/index.js NAME [--json].
import { existsSync, readdirSync } from 'node:fs'

const [name = '', ...args] = process.argv.slice(2)
const file = new URL(`./${name}.js`, import.meta.url)
const names = readdirSync(new URL('.', import.meta.url))
  .filter((entry) => entry.endsWith('.js') && entry !== 'index.js')
  .map((entry) => entry.slice(0, -'.js'.length))

if (!names.includes(name)) {
  process.stderr.write(`usage: node test/bench/index.js ${names.join('|')} [--json]\n`)
  process.exitCode = 2
} else if (!existsSync(new URL('../../dist/errors.js', import.meta.url))) {
  process.stderr.write('there is no dist: run npm run build first\n')
  process.exitCode = 4
} else {
  const { main } = await import(file.href)
  process.exitCode = await main(args)
}
