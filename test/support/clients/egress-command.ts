import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'

const COMMAND = fileURLToPath(new URL('../../../bin/iterion-egress.js', import.meta.url))
const READY_MS = 20_000
const EVENT_MS = 5_000
const STOP_MS = 15_000

/** A record of the event file. */
export interface EventRecord {
  readonly type: string
  readonly data: Readonly<Record<string, unknown>>
}

/** The command `serve`, as a user starts it, in a process of its own. */
export interface EgressCommand {
  /** The host and port where it listens. */
  readonly listen: string
  /** The URL for clients; it holds the token if there is one. */
  readonly proxyUrl: string
  /** Every record so far. */
  readonly events: () => EventRecord[]
  /** Waits for a record that `matches`; undefined if none comes. */
  readonly waitFor: (matches: (record: EventRecord) => boolean) => Promise<EventRecord | undefined>
}

export interface EgressOptions {
  readonly folder: string
  readonly rules: readonly string[]
  /** Values of `--resolve`. */
  readonly resolve: readonly string[]
  readonly token?: string | undefined
}

/** Starts the command; it is told to end when `t` ends. */
export async function startEgress(t: Test, options: EgressOptions): Promise<EgressCommand> {
  const { folder, rules, resolve, token } = options
  const at = (name: string) => join(folder, name)
  writeFileSync(at('policy.yaml'), `version: 1\nrules: ${JSON.stringify(rules)}\n`)
  const paths = ['--policy', at('policy.yaml'), '--ready-file', at('ready.json')]
  const events = ['--events', at('events.ndjson'), '--listen', '127.0.0.1:0']
  const maps = resolve.flatMap((map) => ['--resolve', map])
  const secret = token === undefined ? [] : ['--token', token]
  const args = [COMMAND, 'serve', ...paths, ...events, ...maps, ...secret]
  const child = spawn(process.execPath, args, { env: {}, stdio: ['ignore', 'ignore', 'pipe'] })
  let complaint = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaint += text
  })
  t.teardown(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
    child.kill('SIGTERM')
    await once(child, 'exit')
    clearTimeout(timer)
  })
  const until = Date.now() + READY_MS
  while (!existsSync(at('ready.json'))) {
    if (child.exitCode !== null || Date.now() > until) {
      throw new Error(`the proxy did not start: ${complaint}`)
    }
    await sleep(20)
  }
  const ready = JSON.parse(readFileSync(at('ready.json'), 'utf8')) as Record<string, string>
  const readAll = () => readEvents(at('events.ndjson'))
  return {
    listen: ready['listen'] ?? '',
    proxyUrl: ready['proxy_url'] ?? '',
    events: readAll,
    async waitFor(matches) {
      const limit = Date.now() + EVENT_MS
      for (;;) {
        const found = readAll().find(matches)
        if (found !== undefined || Date.now() > limit) return found
        await sleep(20)
      }
    },
  }
}

/** The whole lines of an event file; one that is still being written is left out. */
function readEvents(path: string): EventRecord[] {
  if (!existsSync(path)) return []
  const lines = readFileSync(path, 'utf8').split('\n').slice(0, -1)
  return lines.map((line) => JSON.parse(line) as EventRecord)
}
