// Runs inside a sandbox: tries every technique of the plan beside it, and prints one line of JSON for each.
import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'

const AT_ONCE = 6
// Longer than a resolver waits before it asks again: a lost datagram keeps no technique in.
const BOUND_MS = 10_000

const { facts, commands, inOrder, last, mark, waits } = JSON.parse(
  readFileSync('plan.json', 'utf8'),
)

const proxy = new URL(process.env.http_proxy)
const env = {
  ...process.env,
  ...facts,
  PROXY_HOST: proxy.hostname,
  PROXY_PORT: proxy.port,
  PROXY_AUTH:
    proxy.password &&
    `Basic ${Buffer.from(`${proxy.username}:${proxy.password}`).toString('base64')}`,
}

function attempt([program, ...args]) {
  return new Promise((resolve) => {
    const child = spawn(program, args, { env, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
    let text = ''
    const end = () => {
      try {
        if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
      } catch {
        // It has ended.
      }
    }
    const timer = setTimeout(end, BOUND_MS)
    child.on('error', (error) => (text += error.message))
    child.stdout.on('data', (chunk) => (text += chunk))
    child.stderr.on('data', (chunk) => (text += chunk))
    child.on('exit', end)
    child.on('close', () => {
      clearTimeout(timer)
      resolve(text)
    })
  })
}

/** Tries one after the other, until none waits. */
async function work(waiting) {
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    const [name, command] = next
    const text = await attempt(command)
    const out = text.includes(mark) || /^OUT\b/m.test(text)
    process.stdout.write(`${JSON.stringify({ name, out, text: text.slice(0, 400) })}\n`)
  }
}
const waiting = Object.entries(commands)
await Promise.all([
  work(Object.entries(inOrder)),
  ...Array.from({ length: AT_ONCE }, () => work(waiting)),
])
// They disturb all others.
await work(Object.entries(last))
process.stdout.write('tried\n')
// The test looks at the run while it runs.
for (let left = waits ? 300 : 0; left > 0 && !existsSync('seen'); left--) {
  await new Promise((resolve) => setTimeout(resolve, 50))
}
