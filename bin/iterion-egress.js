#!/usr/bin/env node
import path from 'node:path'
import { main } from '../dist/cli/main.js'

const script = process.argv[1] ?? ''
let signals = 0
// A reader that has seen enough (`| head`) is no failure.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error) => {
    if (error.code !== 'EPIPE') throw error
  })
}
const code = await main(process.argv.slice(2), {
  stdout: (text) => process.stdout.write(text),
  stderr: (text) => process.stderr.write(text),
  stdin: process.stdin,
  env: process.env,
  programName: script.endsWith('.js') ? `node ${path.relative('', script)}` : path.basename(script),
  onTerminate(listener) {
    for (const signal of ['SIGTERM', 'SIGINT']) {
      process.on(signal, () => {
        // A second signal means: now.
        if (++signals > 1) process.exit(130)
        listener()
      })
    }
  },
})
process.exitCode = code
