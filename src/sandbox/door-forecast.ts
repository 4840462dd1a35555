import type { DoorKind } from '../door/door.ts'
import { findOnPath } from './drivers/find-runtime.ts'
import type { SandboxHost } from './host.ts'

/** Where the programs are that set up a network: not on everybody's PATH. */
const SYSTEM_FOLDERS = '/usr/sbin:/sbin'

/**
 * Why a door would listen on the ports of the policy itself, so that the sandbox's own servers could not use them; undefined:
 * it would not, as far as can be told before it is placed.
 */
export function whyTakesPorts(
  door: DoorKind | 'process' | undefined,
  host: SandboxHost,
): string | undefined {
  if (door !== 'netns' && door !== 'process') return undefined
  const PATH = `${host.env['PATH'] ?? ''}:${SYSTEM_FOLDERS}`
  const isThere = findOnPath('iptables-restore', { ...host, env: { ...host.env, PATH } })
  return isThere ? undefined : 'there is no iptables-restore on this machine'
}
