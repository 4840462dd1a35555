import { readFileSync } from 'node:fs'

/** What keeps user namespaces from those who are not root: where it is said, the value that does, and the way back. */
const SWITCHES = [
  ['kernel/unprivileged_userns_clone', '0', 'kernel.unprivileged_userns_clone=1'],
  [
    'kernel/apparmor_restrict_unprivileged_userns',
    '1',
    'kernel.apparmor_restrict_unprivileged_userns=0',
  ],
  ['user/max_user_namespaces', '0', 'user.max_user_namespaces=10000'],
  ['user/max_net_namespaces', '0', 'user.max_net_namespaces=10000'],
  ['user/max_mnt_namespaces', '0', 'user.max_mnt_namespaces=10000'],
  ['user/max_pid_namespaces', '0', 'user.max_pid_namespaces=10000'],
] as const

/**
 * What is missing when a command could not be sealed, and how it is turned on; undefined if nothing is known.
 *
 * @param complaint what the set-up said
 * @param read gives a file below /proc/sys; undefined if there is none. Default: of this machine.
 */
export function sealRemedy(
  complaint: string,
  read: (name: string) => string | undefined = readSysctl,
): string | undefined {
  const [, program] =
    /\b(ip|mkdir|mount|setpriv|setsid|unshare): (?:not found|command not found)/.exec(complaint) ??
    []
  if (program !== undefined) return missingProgram(program)
  if (complaint.includes('E2BIG')) {
    return 'the environment is too large to be handed on: about 1,400 variables, and 128 KiB in one, can be'
  }
  if (/unrecognized option|invalid option/.test(complaint)) {
    return 'unshare and setpriv of util-linux 2.36 or newer are needed'
  }
  const off = SWITCHES.filter(([name, value]) => read(name)?.trim() === value)
  if (off.length > 0) {
    const ways = off.map(([, , way]) => `sysctl -w ${way}`).join(', ')
    return `user namespaces are turned off here; root turns them on with: ${ways}`
  }
  if (/not permitted|permission denied|read-only file system/i.test(complaint)) {
    return 'namespaces may not be made here, as in a container with the usual restrictions: start it outside, or let the container make them (docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined)'
  }
  return undefined
}

const OWNERS: Readonly<Partial<Record<string, string>>> = {
  ip: 'iproute2',
  mkdir: 'coreutils',
  sh: 'the system itself',
}

/** Which package a program of the set-up is in. */
export function missingProgram(program: string): string {
  const owner = OWNERS[program] ?? 'util-linux'
  return `${program} is missing: it comes with ${owner}`
}

function readSysctl(name: string): string | undefined {
  try {
    return readFileSync(`/proc/sys/${name}`, 'utf8')
  } catch {
    return undefined
  }
}
