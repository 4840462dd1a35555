import type { Spawner } from '../door/spawn.ts'
import type { Resolver } from '../proxy/resolver.ts'

/** Which process this is, so that another one can tell whether it still lives. */
export interface ProcessIdentity {
  /** The boot of the kernel that it runs on. */
  readonly bootId: string
  /** The pid namespace that its pid counts in. */
  readonly pidNamespace: string
  readonly pid: number
  /** When it started, in clock ticks since boot, as in /proc/PID/stat. */
  readonly startTime: string
}

/**
 * Everything of the machine that a run may touch. Nothing in this folder reads the process's own home, environment,
 * clock or user: a caller gives them.
 */
export interface SandboxHost {
  /** The caller's home folder. */
  readonly home: string
  /** The caller's environment. Only the names of docs/sandbox.md are read, and none reaches a container. */
  readonly env: Readonly<Partial<Record<string, string>>>
  /** Where runs are recorded: `ITERION_HOME`, or `~/.iterion`. */
  readonly iterionHome: string
  /** Where the short-lived folder of a run is made; the path should be short, for the sake of sockets. */
  readonly tempRoot: string
  /** The folder that relative paths start from. */
  readonly cwd: string
  /** Milliseconds since 1970. */
  readonly now: () => number
  readonly resolver: Resolver
  readonly spawn: Spawner
  /** Sends a signal to a process of this machine. */
  readonly signal: (pid: number, signal: NodeJS.Signals) => void
  readonly user: { readonly uid: number; readonly gid: number; readonly name: string }
  /** The memory of the machine, in bytes. */
  readonly memoryBytes: number
  readonly identity: ProcessIdentity
}
