import type { ChildProcess, StdioOptions } from 'node:child_process'
import { constants as osConstants } from 'node:os'
import type { Readable } from 'node:stream'
import { signalGroup } from '../door/spawn.ts'
import { EgressError } from '../errors.ts'
import type { NodeProgram } from './backend.ts'
import type { Driver, ExecSpec } from './driver.ts'
import type { SandboxHost } from './host.ts'
import { SHELL_FILE } from './secrets.ts'
import { STATUS_TARGET, type StatusFile } from './status-file.ts'

/** How long the sending of a signal may take, in milliseconds. */
const SIGNAL_TIMEOUT_MS = 5_000

/** A command of the workflow that runs. */
export interface NodeProcess {
  /** Its exit code, 128+N if signal N ended it. @throws {EgressError} NODE_FAILED if nobody knows how it ended */
  readonly done: Promise<number>
  /** Sends a signal to it and to all of its process group. */
  signal(name: NodeJS.Signals): void
  /** What it prints, as far as that is piped to this program. */
  readonly output: readonly Readable[]
  /** Tells it that the terminal has another size. */
  resize(): void
}

/**
 * What every node runs under inside the sandbox: it writes down its pid and how the node ended. The command line of
 * `exec` knows neither for sure. Signals reach the node itself; this shell waits for what the node makes of them.
 */
const WRAPPER = `
_iterion_node=$1
[ "$2" = env ] && . ${SHELL_FILE}
shift 2
echo "$_iterion_node pid $$" >> ${STATUS_TARGET}
trap : HUP INT QUIT TERM USR1 USR2
(unset _iterion_node; exec "$@")
_iterion_code=$?
echo "$_iterion_node exit $_iterion_code" >> ${STATUS_TARGET}
exit $_iterion_code
`

/** Stands before it for a command that is held: without a line on its standard input it runs nothing. */
const HOLD = `
read -r _iterion_word || exit 125
exec < /dev/null
`

/** A command that is as good as started: only the word is missing. */
export interface HeldNode {
  /** Lets it run. */
  release(): NodeProcess
  /** Gives it up. What the engine says of that is for nobody. */
  drop(): void
}

/** A command to be started in a container. */
export interface ContainerNode {
  readonly driver: Driver
  readonly exec: ExecSpec
  /** A number that no other command of this container has. */
  readonly index: number
  readonly status: StatusFile
  /** True if variables wait in a file of this program's beside the secrets. One that somebody else wrote is not read. */
  readonly hasShellFile: boolean
  /** What it reads, and nothing after it; undefined: its standard input is the caller's, or none. */
  readonly input?: string | undefined
}

/** Starts a command in a container. */
export function startContainerNode(node: ContainerNode, stdio: StdioOptions): NodeProcess {
  if (node.input === undefined) return watch(node, startWrapper(node, WRAPPER, stdio))
  const reading = { ...node, exec: { ...node.exec, interactive: true, tty: false } }
  const started = startWrapper(reading, WRAPPER, withPipe(stdio))
  give(started.child, node.input)
  return watch(node, started)
}

/** The same streams with a pipe to write into. */
function withPipe(stdio: StdioOptions): StdioOptions {
  const [, output, errors] = typeof stdio === 'string' ? [stdio, stdio, stdio] : stdio
  return ['pipe', output, errors]
}

/** Gives a program all that it reads. */
function give({ stdin }: ChildProcess, input: string): void {
  // Who is gone does not read it, and says so when it is looked at.
  stdin?.on('error', () => undefined)
  stdin?.end(input)
}

/**
 * Makes everything ready for a command in a container that reads nothing, so that it can run at a word. That takes the
 * engine as long as it takes to place a door.
 */
export function holdContainerNode(node: ContainerNode, stdio: StdioOptions): HeldNode {
  const held = { ...node, exec: { ...node.exec, interactive: true } }
  const started = startWrapper(held, HOLD + WRAPPER, withPipe(stdio))
  return {
    release() {
      give(started.child, '\n')
      return watch(node, started)
    },
    drop: () => signalGroup(started.child, 'SIGKILL'),
  }
}

function startWrapper(
  { driver, exec, index, hasShellFile }: ContainerNode,
  script: string,
  stdio: StdioOptions,
) {
  const own = [String(index), hasShellFile ? 'env' : 'none']
  const command = ['/bin/sh', '-c', script, 'iterion-node', ...own, ...exec.command]
  const child = driver.exec({ ...exec, command }, stdio)
  return { child, ended: whenEnded(child) }
}

function watch(
  { driver, exec, index, status }: ContainerNode,
  { child, ended }: ReturnType<typeof startWrapper>,
): NodeProcess {
  return {
    done: ended.then((how) => {
      const code = status.exitCode(index)
      if (code !== undefined) return code
      throw new EgressError(
        'NODE_FAILED',
        `nobody recorded how the command ended (${how}); its container may be gone, or have no /bin/sh, or not know the user ${exec.user || 'of the image'}`,
      )
    }),
    signal(name) {
      const pid = status.pid(index)
      // Not there yet: the second signal ends the run.
      if (pid === undefined) return
      const target = ['/bin/sh', '-c', `kill -s ${name.slice(3)} -- -${pid}`]
      const plain = { ...exec, workdir: '/', envFile: undefined, interactive: false, tty: false }
      void driver
        .run({ ...plain, command: target }, { timeoutMs: SIGNAL_TIMEOUT_MS })
        .catch(() => undefined)
    },
    output: outputOf(child),
    resize() {
      child.kill('SIGWINCH')
    },
  }
}

/** Starts a node on this machine, without a sandbox. */
export function startHostNode(
  host: SandboxHost,
  { words: [program = '', ...args], input }: NodeProgram,
  workdir: string,
  env: Readonly<Record<string, string>>,
  stdio: StdioOptions,
  say: (line: string) => void,
): NodeProcess {
  const child = host.spawn(program, args, {
    cwd: workdir,
    env: { ...host.env, ...env },
    stdio: input === undefined ? stdio : withPipe(stdio),
    detached: true,
  })
  if (input !== undefined) give(child, input)
  let failure: Error | undefined
  child.once('error', (error) => (failure = error))
  return {
    done: whenEnded(child).then(() => {
      // As a shell, and the command line of an engine, tell it: so that a fallback can take over.
      const { code } = (failure ?? {}) as NodeJS.ErrnoException
      if (code === 'ENOENT' || code === 'EACCES') {
        say(
          `${program} cannot be started: ${code === 'ENOENT' ? 'there is no such program' : 'it is not for this user to start'}`,
        )
        return code === 'ENOENT' ? 127 : 126
      }
      if (failure) throw new EgressError('NODE_FAILED', failure.message, { cause: failure })
      return child.exitCode ?? 128 + (osConstants.signals[child.signalCode ?? 'SIGKILL'] ?? 9)
    }),
    signal: (name) => signalGroup(child, name),
    output: outputOf(child),
    resize: () => signalGroup(child, 'SIGWINCH'),
  }
}

function outputOf({ stdout, stderr }: ChildProcess): Readable[] {
  return [stdout, stderr].filter((stream) => stream !== null)
}

function whenEnded(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once('error', (error) => resolve(error.message))
    child.once('close', (code, signal) => resolve(`exec ended with ${signal ?? code}`))
  })
}
