import { readFileSync, readlinkSync } from 'node:fs'
import type { ProcessIdentity } from './host.ts'

/** The identity of a process of this machine, by default of the calling one. */
export function readIdentity(pid: number): ProcessIdentity {
  return {
    bootId: readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim(),
    pidNamespace: readlinkSync(`/proc/${pid}/ns/pid`),
    pid,
    startTime: startTimeOf(pid) ?? '',
  }
}

/**
 * Whether a process still lives. Only a process of the same boot and the same pid namespace can be judged: a pid says
 * nothing elsewhere. A pid that was given to another process since has another start time.
 */
export function judgeProcess(
  other: ProcessIdentity,
  own: ProcessIdentity,
  startTime: (pid: number) => string | undefined = startTimeOf,
): 'alive' | 'gone' | 'unknown' {
  if (other.bootId !== own.bootId || other.pidNamespace !== own.pidNamespace) return 'unknown'
  return startTime(other.pid) === other.startTime ? 'alive' : 'gone'
}

/** Field 22 of /proc/PID/stat. The second field is a name that may hold anything, so it is counted from its end. */
function startTimeOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    // A zombie has ended.
    return fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19]
  } catch {
    return undefined
  }
}
