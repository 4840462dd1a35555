#!/usr/bin/env node
import { main } from '../dist/cli/main.js'
import { systemIo } from '../dist/cli/system-io.js'

process.exitCode = await main(process.argv.slice(2), systemIo())
