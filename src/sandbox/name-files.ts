/** What a sandbox calls itself, unless its repository names it. */
const HOSTNAME = 'sandbox'

/** The name of the resolver's file in the scratch folder of a run. */
export const RESOLVER_FILE = 'resolv.conf'

/** The name of a sandbox: the last one that the engine is told. */
export function hostnameOf(engineArgs: readonly string[]): string {
  const flag = '--hostname='
  return engineArgs.findLast((arg) => arg.startsWith(flag))?.slice(flag.length) ?? HOSTNAME
}

/**
 * The text of `/etc/resolv.conf`: the door's resolver alone, and no domain to search, which would be asked about names that
 * nobody meant.
 *
 * @param stub the resolver's address
 */
export function resolverFile(stub: string): string {
  return `nameserver ${stub}\noptions ndots:1\n`
}

/** The text of `/etc/hosts`: the sandbox itself. All other names are the resolver's. */
export function hostsFile(hostname: string): string {
  return [
    '127.0.0.1 localhost',
    '::1 localhost ip6-localhost ip6-loopback',
    `127.0.0.1 ${hostname}`,
    '',
  ].join('\n')
}
