import type { Test } from 'tap'
import type { ClientRun, Variables } from './run-client.ts'
import { type Client, holdRecord, holdVariables } from './record.ts'
import { onlyVariable, refused, type Stage, wasAskedForToken } from './stage.ts'
import type { Service } from './upstream.ts'

/** A page that tells which host and path it was asked for. */
export const pages: Service = {
  request: ({ url = '', headers }, response) => response.end(page(headers.host ?? '', url)),
}

export function page(host: string, path: string): string {
  return `${path} of ${host}\n`
}

/** A client that fetches a URL, prints it, and prints what went wrong instead if it cannot. */
export interface Fetcher {
  readonly client: Client
  readonly fetch: (url: string) => Promise<ClientRun>
  /** How a run ended, in the words of docs/clients.md; `exit CODE` if it is not given. */
  readonly outcome?: (run: ClientRun) => string
  /** How it sends a plain HTTP request; `forward` if it is not given. */
  readonly plainVia?: 'connect' | 'forward'
}

/** Fetches from a host that the policy allows, through a tunnel and as plain HTTP. */
export async function testAllowed(
  t: Test,
  stage: Stage,
  host: string,
  { client, fetch }: Fetcher,
): Promise<void> {
  for (const scheme of ['https', 'http']) {
    await t.test(`${client.name} fetches ${scheme}`, async (sub) => {
      const ran = await fetch(`${scheme}://${host}/file`)
      sub.strictSame([ran.code, ran.stdout], [0, page(host, '/file')], ran.output)
      sub.notOk(wasAskedForToken(stage), 'a token is shown with the first request')
    })
  }
}

function exitCode({ code }: ClientRun): string {
  return `exit ${code}`
}

/** Fetches from a host that the policy does not allow, both ways, and holds what it shows to docs/clients.md. */
export async function testDenied(
  t: Test,
  stage: Stage,
  host: string,
  { client, fetch, outcome = exitCode, plainVia = 'forward' }: Fetcher,
): Promise<void> {
  for (const [scheme, column, port, via] of [
    ['https', 'connect', 443, 'connect'],
    ['http', 'plain', 80, plainVia],
  ] as const) {
    await t.test(`${client.name} is refused ${scheme}`, async (sub) => {
      const expected = { host, port, via, reason: 'no-rule' } as const
      const ran = await refused(sub, stage, expected, () => fetch(`${scheme}://${host}/file`))
      holdRecord(sub, client, column, { outcome: outcome(ran), text: ran.output, host, port })
    })
  }
}

/** Fetches from a host that the policy allows, without the token that the proxy wants. */
export async function testWithoutToken(
  t: Test,
  stage: Stage,
  host: string,
  { client, fetch, plainVia = 'forward' }: Fetcher,
): Promise<void> {
  for (const [scheme, via, port] of [
    ['https', 'connect', 443],
    ['http', plainVia, 80],
  ] as const) {
    await t.test(`${client.name} without a token fetches no ${scheme}`, async (sub) => {
      const expected = { host, port, via, reason: 'auth' } as const
      const ran = await refused(sub, stage, expected, () => fetch(`${scheme}://${host}/file`))
      sub.not(ran.code, 0)
      sub.match(ran.output, /407|Proxy Authentication Required/)
    })
  }
}

/** Asks a client for the service of an address, in the environment that is given. */
export type Ask = (scheme: string, address: string, variables: Variables) => Promise<ClientRun>

/**
 * Finds out which proxy variables a client reads: with one of them set, it is asked for an address of loopback. The
 * proxy refuses that; a client that goes there itself is seen by the upstream.
 */
export async function testVariables(
  t: Test,
  { egress, upstream }: Stage,
  { name }: Client,
  ask: Ask,
): Promise<void> {
  await t.test(`${name} reads some proxy variables`, async (sub) => {
    const read: string[] = []
    for (const [scheme, port, names] of [
      ['https', upstream.tlsPort, ['https_proxy', 'HTTPS_PROXY']],
      ['http', upstream.plainPort, ['http_proxy', 'HTTP_PROXY']],
    ] as const) {
      for (const variable of names) {
        const before = upstream.connections()
        await ask(scheme, `127.0.0.1:${port}`, onlyVariable(variable, egress.proxyUrl))
        if (upstream.connections() === before) read.push(variable)
      }
    }
    holdVariables(sub, name, read)
  })
}
