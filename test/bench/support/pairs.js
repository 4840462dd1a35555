// What benchmarks by pairs of commands have in common.
import { spawn } from 'node:child_process'

/** How long a command takes from its start to its end, in milliseconds. */
export function timeOf([program, ...args], cwd, env) {
  return new Promise((resolve, reject) => {
    const start = performance.now()
    const child = spawn(program, args, { cwd, env, stdio: ['ignore', 'ignore', 'pipe'] })
    let complaints = ''
    child.stderr.on('data', (chunk) => (complaints += chunk))
    child.on('error', reject)
    child.on('close', (code) => {
      if (code === 0) resolve(performance.now() - start)
      else reject(new Error(`${program} ${args.join(' ')}: ${code}: ${complaints}`))
    })
  })
}

/** The middle one of some values. */
export function median(values) {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}
