/** How a proxy answers to {@link PROBE_REQUEST}, and nothing else does. It decides and records nothing for it. */
const PROXY_ANSWER =
  /^HTTP\/1\.1 204 [^\r\n]*\r\n(?:[^\r\n]+\r\n)*proxy-status: iterion-egress\r\n/i

/** What asks the proxy behind a door whether it serves. */
export const PROBE_REQUEST =
  'OPTIONS * HTTP/1.1\r\nHost: door-probe.invalid\r\nMax-Forwards: 0\r\nConnection: close\r\n\r\n'

/** Answers of `connect` that come from this machine, because there is no way to the address. */
const NO_WAY = new Set(['ENETUNREACH', 'EHOSTUNREACH', 'EADDRNOTAVAIL', 'EAFNOSUPPORT'])

/**
 * Why a namespace has an interface besides `lo`; undefined if it has none.
 *
 * @param devices the text of /proc/net/dev there
 */
export function deviceProblem(devices: string): string | undefined {
  const [, , ...lines] = devices.split('\n')
  // A name is all before the last colon that numbers follow: an alias may have a colon of its own.
  const names = lines
    .filter((line) => line.trim() !== '')
    .map((line) => /^\s*(\S+):\s*\d/.exec(line)?.[1])
  if (names.includes(undefined)) return 'the list of its interfaces cannot be read'
  const others = names.filter((name) => name !== 'lo')
  if (others.length > 0)
    return `it has an interface besides lo: ${others.slice(0, 5).join(', ')}${hintFor(others)}`
  return names.length === 1 ? undefined : 'it has no lo, so its interfaces cannot be told'
}

/** Kernel modules for tunnels put a device of theirs into every new namespace, unless they are told not to. */
function hintFor(names: readonly (string | undefined)[]): string {
  const isFallback = (name = '') =>
    /^(?:ip6?_vti|ip6tnl|ip6gre|tunl|sit|gre|gretap|erspan)0$/.test(name)
  return names.every(isFallback)
    ? ' (a tunnel module made it; sysctl net.core.fb_tunnels_only_for_init_net=1 keeps such out)'
    : ''
}

/**
 * Why a namespace has a route that leads out of it; undefined if it has none.
 *
 * @param routes4 the text of /proc/net/route there
 * @param routes6 the text of /proc/net/ipv6_route there; empty if the kernel has no IPv6
 */
export function routeProblem(routes4: string, routes6: string): string | undefined {
  const [head = '', ...lines] = routes4.split('\n')
  if (!head.startsWith('Iface')) return 'its routes cannot be read'
  const devices = [
    ...lines.map((line) => line.trim().split(/\s+/)[0]),
    ...routes6.split('\n').map((line) => line.trim().split(/\s+/).at(-1)),
  ].filter((name) => name !== undefined && name !== '')
  const other = devices.find((name) => name !== 'lo')
  return other === undefined ? undefined : `it has a route by ${other}`
}

/** Why what came from the door's port is not our proxy's answer; undefined if it is. */
export function answerProblem(answer: string): string | undefined {
  if (PROXY_ANSWER.test(answer)) return undefined
  return answer === ''
    ? 'nothing answers at the door'
    : `something else answers at the door: ${JSON.stringify(answer.slice(0, 80))}`
}

/** Asks for the address of `localhost`. */
export const NAMES_QUESTION = Buffer.from(
  '\x7a\x7a\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x09localhost\x00\x00\x01\x00\x01',
  'latin1',
)

/** Why what came is no answer of our resolver to {@link NAMES_QUESTION}; undefined if it is. */
export function namesProblem(answer: Buffer | undefined): string | undefined {
  if (answer === undefined) return 'nothing answers at the resolver'
  const isAnswer =
    answer.length > NAMES_QUESTION.length &&
    answer.subarray(0, 2).equals(NAMES_QUESTION.subarray(0, 2)) &&
    answer.subarray(-4).equals(Buffer.from([127, 0, 0, 1]))
  return isAnswer ? undefined : 'something else answers at the resolver'
}

/** Why a connect to an address outside did not fail as it does where no way leads; undefined if it did. */
export function connectProblem(address: string, outcome: string): string | undefined {
  return NO_WAY.has(outcome) ? undefined : `a connect to ${address} was not refused: ${outcome}`
}
