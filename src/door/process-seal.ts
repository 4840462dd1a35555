import type { StdioOptions } from 'node:child_process'
import { EgressError } from '../errors.ts'
import { carriedBeside } from './carried-variables.ts'
import { type DoorSockets, lackOf } from './door.ts'
import type { DoorPlan } from './door-plan.ts'
import { programFile } from './program-file.ts'
import { sealFailed, type SealHelper, sealHelperOf } from './seal-helper.ts'
import { findSealPlaces, type SealPlaces } from './seal-places.ts'
import { textOf } from './seal-sockets.ts'
import { innerWords, outerWords, SEAL_ENV, type SealUser, setUpWords } from './seal-words.ts'
import type { Spawner } from './spawn.ts'
import { isAtTerminal, type StandardStreams, standardStreams } from './standard-streams.ts'

/** What a seal is placed around. */
export interface SealSite {
  readonly spawn: Spawner
  readonly user: SealUser
  /** `XDG_RUNTIME_DIR`: a folder of sockets. */
  readonly runtimeFolder: string | undefined
  /** The folder that the command works in. */
  readonly directory: string
  /** Folders whose hidden folders are searched for sockets too: the caller's home. */
  readonly homes: readonly string[]
  /** The command with its arguments. */
  readonly command: readonly string[]
  /** The whole environment of the command. */
  readonly commandEnv: Readonly<Partial<Record<string, string>>>
  /** Standard input, output and error of the command. */
  readonly stdio: StdioOptions
  /** What the command reads, and nothing after it. Default: its standard input. */
  readonly input?: string | undefined
}

/** Namespaces that come to be. */
export interface ProcessSealing {
  /**
   * Opens the door, and makes the command ready. To be called once.
   *
   * @throws {EgressError} SANDBOX_DOOR_FAILED with what is missing and how to turn it on, or PROGRAM_MISSING
   */
  open(plan: DoorPlan): Promise<ProcessSeal>
  /** Ends everything inside. Works at any moment, also twice. */
  close(): void
}

/** A process of this machine, whose only way out is the door. */
export interface ProcessSeal extends DoorSockets {
  /** What its user has to know, each a line: what it does not close for sure, and what was not to be had. */
  readonly warnings: readonly string[]
  /**
   * Proves from inside that the door is the only way out. To be called when the proxy serves it, and before `run`.
   *
   * @throws {EgressError} SANDBOX_DOOR_FAILED
   */
  probe(): Promise<void>
  /**
   * Lets the command run, once. When it has ended, so has all that it started.
   *
   * @returns its exit code, 128+N if signal N ended it
   * @throws {EgressError} SANDBOX_DOOR_FAILED if it was not started; SANDBOX_LOST if it was ended from outside
   */
  run(): Promise<number>
  /** Passes a signal on to the command. One of a terminal that it has got by itself does not come twice. */
  signal(name: NodeJS.Signals): void
  /** Ends everything inside, and closes the door. Works at any moment, also twice. */
  close(): void
}

/**
 * Seals a process of this machine by namespaces, without an engine and without root.
 *
 *     caller ──▶ unshare: user, network, mounts ──▶ helper ──▶ set-up; sockets on 127.0.0.1:3128 and the plan's
 *     caller ◀──the listening sockets, over Node's channel──── helper ──▶ unshare: processes, user ──▶ command, held
 *     caller ── serves them, has them proven ── and lets the command run
 *
 * In the outer namespaces the helper is root. The command is the caller again, in an inner user namespace, where it has
 * nothing to enter the outer ones by. The namespaces come to be while the caller reads its policy.
 *
 * @throws {EgressError} SANDBOX_DOOR_FAILED if its folder would not be there inside
 */
export function startProcessSeal(site: SealSite): ProcessSealing {
  const streams = standardStreams(site.stdio)
  const helper = startHelper(site, streams)
  const places = placesOf(site, helper)
  return {
    async open(plan) {
      helper.order({
        kind: 'prepare',
        plan,
        setUp: setUpWords(places, plan.stub),
        command: innerWords(site.user, {
          words: site.command,
          env: site.commandEnv,
          directory: site.directory,
          isAtTerminal: site.input === undefined && isAtTerminal(streams),
        }),
        env: carriedBeside(SEAL_ENV, site.commandEnv),
      })
      return processSeal(helper, await helper.opened(), places)
    },
    close: () => helper.end(),
  }
}

function processSeal(
  helper: SealHelper,
  sockets: DoorSockets,
  { unsearched }: SealPlaces,
): ProcessSeal {
  let isClosed = false
  const lacking = lackOf(sockets)
  return {
    ...sockets,
    warnings: [
      ...unsearched.map(
        (folder) =>
          `there are too many files below ${JSON.stringify(textOf(folder))} to look for sockets in all: one that is left can be reached from inside`,
      ),
      ...(lacking === undefined ? [] : [lacking]),
    ],
    async probe() {
      helper.order({ kind: 'probe' })
      const message = await helper.next()
      if (message.kind !== 'probed') throw sealFailed('the probe did not end')
      if (message.problem !== undefined) throw sealFailed(message.problem)
    },
    async run() {
      helper.order({ kind: 'release' })
      const started = await helper.next()
      if (started.kind !== 'started') throw sealFailed('the command did not start')
      try {
        const message = await helper.next()
        if (message.kind === 'ended') return message.code
      } catch (cause) {
        const why = cause instanceof EgressError ? `: ${cause.message}` : ''
        throw new EgressError('SANDBOX_LOST', `the command was ended from outside${why}`, { cause })
      }
      throw new EgressError('SANDBOX_LOST', 'nobody knows how the command ended')
    },
    signal: (name) => helper.order({ kind: 'signal', signal: name }),
    close() {
      helper.end()
      // A socket of datagrams is not to be closed twice.
      if (isClosed) return
      isClosed = true
      for (const { server } of sockets.servers) server.close()
      sockets.datagrams?.close()
    },
  }
}

/** Looked for while the namespaces come to be. */
function placesOf({ runtimeFolder, directory, homes }: SealSite, helper: SealHelper): SealPlaces {
  try {
    return findSealPlaces(runtimeFolder, [directory], homes)
  } catch (error) {
    helper.end()
    throw error
  }
}

function startHelper(site: SealSite, [given, output, errors]: StandardStreams): SealHelper {
  const words = [process.execPath, programFile('wrap-helper')]
  const [program, ...args] = outerWords(site.user, words)
  const input = site.input === undefined ? given : 'pipe'
  const child = site.spawn(program, args, {
    env: SEAL_ENV,
    // In front of the terminal, as the command has to be.
    stdio: [input, output, 'pipe', 'ipc', errors],
  })
  if (site.input !== undefined) {
    // Who is gone does not read it, and says so when it is looked at.
    child.stdin?.on('error', () => undefined)
    child.stdin?.end(site.input)
  }
  return sealHelperOf(child, program)
}
