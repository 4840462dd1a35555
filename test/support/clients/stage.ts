import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { type Authority, createAuthority } from './authority.ts'
import { type EgressCommand, startEgress } from './egress-command.ts'
import { PROGRAM_PATH } from './program.ts'
import { type ClientRun, runClient, type Variables } from './run-client.ts'
import { type Service, startUpstream, type Upstream } from './upstream.ts'

export interface StageOptions {
  /** Names that the policy allows, on ports 80 and 443. */
  readonly allowed: readonly string[]
  /** Names that it does not allow. They lead to the upstream as well, so that a leak would be seen there. */
  readonly denied: readonly string[]
  readonly service: Service
  readonly token?: string
}

/** A real proxy, a real upstream behind it, and an empty home for a client that has nothing but the proxy. */
export interface Stage {
  readonly egress: EgressCommand
  readonly upstream: Upstream
  readonly authority: Authority
  /** A folder of the test's own. */
  readonly folder: string
  /** The whole environment of a client. */
  readonly env: Readonly<Record<string, string>>
  /** Runs a client in that environment, with `more` added; what is undefined there is taken away. */
  readonly run: (
    program: string,
    args: readonly string[],
    more?: Variables,
    timeoutMs?: number,
  ) => Promise<ClientRun>
}

export async function openStage(t: Test, options: StageOptions): Promise<Stage> {
  // Outside the checkout: npm and git look for a project in the folders above.
  const folder = mkdtempSync(join(tmpdir(), 'egress-client-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const home = join(folder, 'home')
  mkdirSync(home)
  const authority = createAuthority(folder)
  const upstream = await startUpstream(t, authority, options.service)
  const { allowed, denied, token } = options
  const resolve = [...allowed, ...denied].flatMap((name) => [
    `${name}:443:127.0.0.1:${upstream.tlsPort}`,
    `${name}:80:127.0.0.1:${upstream.plainPort}`,
  ])
  const egress = await startEgress(t, { folder, rules: allowed, resolve, token })
  const env = {
    PATH: PROGRAM_PATH,
    HOME: home,
    TMPDIR: home,
    LC_ALL: 'C.UTF-8',
    TZ: 'UTC',
    ...proxyVariables(egress.proxyUrl),
  }
  return {
    egress,
    upstream,
    authority,
    folder,
    env,
    run: (program, args, more, timeoutMs) =>
      runClient(program, args, {
        env: { ...env, ...more },
        cwd: home,
        ...(timeoutMs !== undefined && { timeoutMs }),
      }),
  }
}

/** The variables that lead a client to a proxy, in both letter cases: curl reads only `http_proxy`, others only capitals. */
export function proxyVariables(url: string): Record<string, string> {
  const own = 'localhost,127.0.0.1,::1'
  return {
    HTTPS_PROXY: url,
    https_proxy: url,
    HTTP_PROXY: url,
    http_proxy: url,
    NO_PROXY: own,
    no_proxy: own,
  }
}

/** An environment that has one of those variables and no other. */
export function onlyVariable(name: string, url: string): Record<string, string | undefined> {
  const none = Object.keys(proxyVariables(url)).map((one) => [one, undefined] as const)
  return { ...Object.fromEntries(none), [name]: url }
}

/** True if a client asked without the token and was told to show it. */
export function wasAskedForToken({ egress }: Stage): boolean {
  return egress.events().some(({ data }) => data['reason'] === 'auth')
}

/** What a refusal has to be, as the event file tells it. */
export interface Expected {
  readonly host: string
  readonly port: number
  /** Left out where versions of a client differ. */
  readonly via?: 'connect' | 'forward'
  readonly reason: string
}

/**
 * Does `act`, which the proxy has to refuse, and checks both ends of it: the upstream saw no connection, and the
 * event file has a record that matches.
 */
export async function refused<T>(
  t: Test,
  { egress, upstream }: Stage,
  expected: Expected,
  act: () => Promise<T>,
): Promise<T> {
  const before = upstream.connections()
  const result = await act()
  t.equal(upstream.connections(), before, 'the upstream saw nothing')
  const record = await egress.waitFor(
    ({ type, data }) =>
      type === 'network_blocked' &&
      data['host'] === expected.host &&
      data['port'] === expected.port &&
      data['reason'] === expected.reason &&
      (expected.via === undefined || data['via'] === expected.via),
  )
  t.match(record?.data, expected, 'the event file has it')
  return result
}
