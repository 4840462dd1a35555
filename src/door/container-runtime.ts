import { type RunOptions, type RunResult, runProgram, type Spawner } from './spawn.ts'

/** The name of a container runtime that can be driven. */
export type RuntimeName = 'docker' | 'podman'

/** A container runtime: the one way in which doors and driver talk to its command line. */
export interface ContainerRuntime {
  readonly name: RuntimeName
  /** The program, as found on PATH. */
  readonly program: string
  /** Arguments that stand before every subcommand. */
  readonly globalArgs: readonly string[]
  /** The whole environment of the program. */
  readonly env: Readonly<Partial<Record<string, string>>>
  readonly spawn: Spawner
}

/** Runs one subcommand of a runtime to its end. */
export function runtimeCommand(
  runtime: ContainerRuntime,
  args: readonly string[],
  options: Omit<RunOptions, 'env'> = {},
): Promise<RunResult> {
  return runProgram(runtime.spawn, runtime.program, [...runtime.globalArgs, ...args], {
    ...options,
    env: runtime.env,
  })
}
