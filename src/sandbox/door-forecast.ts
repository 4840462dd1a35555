import type { DoorKind } from '../door/door.ts'
import { findSystemProgram } from './drivers/find-runtime.ts'
import type { SandboxHost } from './host.ts'

/**
 * Why a door would listen on the ports of the policy itself, so that the sandbox's own servers could not use them; undefined:
 * it would not, as far as can be told before it is placed.
 */
export function whyTakesPorts(
  door: DoorKind | 'process' | undefined,
  host: SandboxHost,
): string | undefined {
  if (door !== 'netns' && door !== 'process') return undefined
  return findSystemProgram('iptables-restore', host)
    ? undefined
    : 'there is no iptables-restore on this machine'
}
