import { closeSync, openSync, renameSync, writeSync } from 'node:fs'
import { EgressError } from '../errors.ts'
import type { ListenAddress } from '../proxy/egress-proxy.ts'
import type { Io } from './io.ts'
import { renderJson } from './render.ts'
import type { ServeOptions } from './serve-options.ts'

/** Tells people and programs where the proxy is. The token goes to the ready file, which only its owner can read. */
export function announce(
  io: Io,
  options: ServeOptions,
  bound: ListenAddress,
  token: string | undefined,
): void {
  const host = bound.host.includes(':') ? `[${bound.host}]` : bound.host
  const listen = `${host}:${bound.port}`
  const proxyUrl = (credentials: string, place = listen) => `http://${credentials}${place}`
  const secret = proxyUrl(token === undefined ? '' : `agent:${token}@`)
  const shown = proxyUrl(token === undefined ? '' : 'agent:<token>@')
  // An address that stands for all of them is none to go to.
  const own = ['0.0.0.0', '::'].includes(bound.host) ? `127.0.0.1:${bound.port}` : listen
  const used = proxyUrl(token === undefined ? '' : 'agent:<token>@', own)
  if (options.readyFile !== undefined)
    writeReadyFile(options.readyFile, renderJson({ listen, proxy_url: secret }))
  const say = options.events === '-' ? io.stderr : io.stdout
  if (options.json) {
    say(renderJson({ listen, proxy_url: shown }))
    return
  }
  if (token === undefined)
    io.stderr('warning: no token: every process that can reach the proxy may use it\n')
  say(`iterion-egress listens on ${listen}

  use it        export HTTPS_PROXY=${used} HTTP_PROXY=${used}
  allowed?      curl -sS -o /dev/null -w '%{http_code}\\n' https://api.github.com
  denied?       curl -sS -v https://example.com        (the reason is in the status line and in X-Iterion-Reason)
  why?          ${io.programName} explain ${policyFlags(options)} https://example.com
  end it        Ctrl-C
`)
}

function policyFlags({ policy, preset, presetDir, rule, mode }: ServeOptions): string {
  const quote = (text: string) =>
    /^[\w./:-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
  return [
    ...presetDir.map((dir) => `--preset-dir ${quote(dir)}`),
    ...preset.map((name) => `--preset ${quote(name)}`),
    ...(policy === undefined ? [] : [`--policy ${quote(policy)}`]),
    ...rule.map((text) => `--rule ${quote(text)}`),
    ...(mode === undefined ? [] : [`--mode ${mode}`]),
  ].join(' ')
}

/** Writes the file whole or not at all, for its owner alone. */
function writeReadyFile(path: string, text: string): void {
  const draft = `${path}.${process.pid}.tmp`
  try {
    const descriptor = openSync(draft, 'wx', 0o600)
    writeSync(descriptor, text)
    closeSync(descriptor)
    renameSync(draft, path)
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new EgressError('LISTEN_FAILED', `the ready file cannot be written: ${why}`, {
      cause: error,
    })
  }
}
