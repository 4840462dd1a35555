#!/usr/bin/env node
// The program with a resolver of the test: it answers by the table NAMES, and writes every question to the file LOOKUPS.
import { appendFileSync } from 'node:fs'
import { main } from '../../../dist/cli/main.js'
import { systemIo } from '../../../dist/cli/system-io.js'

const { NAMES, LOOKUPS } = process.env
const names = JSON.parse(NAMES)
const io = systemIo()
const resolver = async (name) => {
  appendFileSync(LOOKUPS, `${name}\n`)
  return name in names ? [{ address: names[name] }] : []
}
process.exitCode = await main(process.argv.slice(2), {
  ...io,
  sandboxHost: () => ({ ...io.sandboxHost(), resolver }),
})
