import { closeSync, openSync, renameSync, writeSync } from 'node:fs'
import { EgressError } from '../errors.ts'
import { openEventLog } from '../events/event-log.ts'
import { parseHost } from '../policy/host.ts'
import { parsePort, splitAuthority } from '../policy/target.ts'
import { readSource } from '../presets/read-source.ts'
import { createEgressProxy, type ListenAddress } from '../proxy/egress-proxy.ts'
import type { RelayKind } from '../proxy/sockets.ts'
import { systemResolver } from '../proxy/system-resolver.ts'
import { EXIT, type ExitCode } from './exit-codes.ts'
import type { Io } from './io.ts'
import type { PolicyOptions } from './policy-flags.ts'
import { policyFrom } from './policy-options.ts'
import { renderJson } from './render.ts'
import { parseResolveOptions } from './resolve-option.ts'
import { tuneForConnections } from './tune.ts'

interface ServeOptions extends PolicyOptions {
  readonly listen: string
  readonly events?: string
  readonly token?: string
  readonly tokenFile?: string
  readonly insecureNoAuth?: boolean
  readonly readyFile?: string
  readonly audit?: boolean
  readonly relay?: RelayKind
  readonly runId?: string
  readonly limit: readonly string[]
  readonly resolve: readonly string[]
  readonly json?: boolean
}

/** `serve`: runs a proxy until it is told to end, then drains it. */
export async function runServe(io: Io, options: ServeOptions): Promise<ExitCode> {
  tuneForConnections()
  const address = parseListen(options.listen)
  const { policy } = policyFrom(options)
  const token = readToken(io, options)
  const given = parseResolveOptions(options.resolve)
  const log =
    options.events === undefined
      ? undefined
      : openEventLog(options.events, { runId: options.runId ?? null })
  try {
    const proxy = createEgressProxy({
      policy,
      resolver: given.toResolver(systemResolver),
      limits: parseLimits(options.limit),
      audit: options.audit === true,
      ...(options.relay && { relay: options.relay }),
      insecureNoAuth: options.insecureNoAuth === true,
      ...(token !== undefined && { token }),
      ...(log && { onEvent: (event) => log.write(event) }),
    })
    const ended = new Promise<void>((resolve) => io.onTerminate(resolve))
    io.onAsked(() => io.stderr(renderJson(proxy.stats())))
    const bound = await proxy.listen(address)
    try {
      announce(io, options, bound, token)
      await ended
    } finally {
      await proxy.close()
    }
  } finally {
    await log?.close()
  }
  return EXIT.yes
}

function parseListen(text: string): ListenAddress {
  const { host, port } = /^\d+$/.test(text)
    ? { host: '127.0.0.1', port: text }
    : splitAuthority(text)
  const number = port === '0' ? 0 : parsePort(port ?? '')
  const parsed = parseHost(host)
  if (number === undefined || parsed.kind === 'bad') {
    throw new EgressError(
      'USAGE',
      `--listen ${JSON.stringify(text)}: the form is HOST:PORT, for example 127.0.0.1:3128`,
    )
  }
  return { host: parsed.kind === 'ip' ? parsed.text : parsed.name, port: number }
}

/** The token from a file, the command line or the environment, in that order. */
function readToken(io: Io, { token, tokenFile }: ServeOptions): string | undefined {
  if (token !== undefined && tokenFile !== undefined) {
    throw new EgressError('USAGE', 'give either --token or --token-file')
  }
  if (tokenFile !== undefined) return readSource(tokenFile).replace(/\r?\n$/, '')
  return token ?? io.env['ITERION_EGRESS_TOKEN']
}

function parseLimits(texts: readonly string[]): Partial<Record<string, number>> {
  const limits: Partial<Record<string, number>> = {}
  for (const text of texts) {
    const match = /^(\w+)=(\d{1,10})$/.exec(text)
    if (match === null)
      throw new EgressError('USAGE', `--limit ${JSON.stringify(text)}: the form is NAME=NUMBER`)
    limits[match[1] ?? ''] = Number(match[2])
  }
  return limits
}

/** Tells people and programs where the proxy is. The token goes to the ready file, which only its owner can read. */
function announce(
  io: Io,
  options: ServeOptions,
  bound: ListenAddress,
  token: string | undefined,
): void {
  const host = bound.host.includes(':') ? `[${bound.host}]` : bound.host
  const listen = `${host}:${bound.port}`
  const proxyUrl = (credentials: string) => `http://${credentials}${listen}`
  const secret = proxyUrl(token === undefined ? '' : `agent:${token}@`)
  const shown = proxyUrl(token === undefined ? '' : 'agent:<token>@')
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

  use it        export HTTPS_PROXY=${shown} HTTP_PROXY=${shown}
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
