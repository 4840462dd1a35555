import { EgressError } from '../errors.ts'
import { type NodeProgram, nodeProgram } from './backend.ts'
import type { Driver, ExecSpec } from './driver.ts'
import { splitEnvironment } from './env-file.ts'
import { environmentLayers, mergeLayers } from './environment.ts'
import type { Layout } from './layout.ts'
import {
  type ContainerNode,
  type HeldNode,
  holdContainerNode,
  type NodeProcess,
  startContainerNode,
} from './node-process.ts'
import type { SandboxRequest } from './sandbox.ts'
import type { Scratch } from './scratch.ts'
import { writeSecrets } from './secrets.ts'
import type { NodeSpec } from './spec.ts'

/** The number of `post_create` in the status file; nodes count from 0. */
const POST_CREATE_INDEX = 1_000_000

/** How commands are started in a sandbox: as whom, where, and with which variables. */
export interface SandboxCommands {
  /**
   * Makes everything ready for a node, so that its start is a word. It runs nothing of the workflow, and does nothing for
   * a node that reads: what a caller types is for the node alone.
   */
  hold(next: NodeSpec | undefined): void
  /** Gives up what was held. */
  drop(): void
  start(node: NodeSpec): NodeProcess
  /** @throws {EgressError} OPTION_INVALID if its user and that of the nodes cannot have the same variables */
  postCreate(command: string | readonly string[], user: string, index: number): ContainerNode
  /** @throws {EgressError} SANDBOX_SETUP_FAILED */
  writeSecrets(signal: AbortSignal): Promise<void>
}

/** What commands are started with. */
interface CommandPlace {
  readonly driver: Driver
  readonly layout: Layout
  readonly scratch: Scratch
  /** What the repository adds to the environment. */
  readonly repositoryEnv: Readonly<Record<string, string>>
  /** The id of the container. */
  readonly container: string
  /** Undefined: past no proxy. */
  readonly proxyUrl: string | undefined
}

/** The commands of a sandbox. What they need of files on the host is made here. */
export function openCommands(
  request: SandboxRequest,
  { driver, layout, scratch, repositoryEnv, container, proxyUrl }: CommandPlace,
): SandboxCommands {
  const { secrets, interactive, tty, stdio } = request
  const layers = environmentLayers(request, layout, repositoryEnv, proxyUrl)
  const { envFile, shellFile } = splitEnvironment(mergeLayers(layers))
  const exec: ExecSpec = {
    container,
    user: layout.user.user,
    workdir: layout.workdir,
    envFile: scratch.write('env', envFile, 0o600),
    interactive: false,
    tty: false,
    command: [],
  }
  const programOf = (index: number, { words, input }: NodeProgram): ContainerNode => ({
    exec: { ...exec, command: words },
    driver,
    index,
    status: scratch.status,
    hasShellFile: shellFile !== '',
    input,
  })
  let count = 0
  const nodeOf = (node: NodeSpec) =>
    programOf(count++, nodeProgram(node, { iterion: layout.iterion, workdir: layout.workdir }))
  let held: { readonly node: HeldNode; readonly of: NodeSpec } | undefined
  return {
    hold(next) {
      if (next === undefined || interactive || tty) return
      const node = nodeOf(next)
      if (node.input === undefined) held = { node: holdContainerNode(node, stdio), of: next }
    },
    drop: () => held?.node.drop(),
    start(node) {
      if (held?.of.id === node.id && held.of.backend === node.backend) return held.node.release()
      const plain = nodeOf(node)
      return startContainerNode({ ...plain, exec: { ...plain.exec, interactive, tty } }, stdio)
    },
    postCreate(command, user, index) {
      assertReadable(shellFile, user, exec.user)
      const words = typeof command === 'string' ? ['/bin/sh', '-c', command] : command
      const node = programOf(POST_CREATE_INDEX + index, { words })
      // Its home is its own.
      const file =
        user === exec.user ? exec.envFile : scratch.write('post-create-env', envFile, 0o600)
      return { ...node, exec: { ...node.exec, user, envFile: file } }
    },
    writeSecrets: (signal) => writeSecrets(driver, exec, secrets.files, shellFile, signal),
  }
}

/** Variables that only a shell file can hold are in one that belongs to the user of the nodes. */
export function assertReadable(shellFile: string, user: string, owner: string): void {
  const isRoot = /^(?:root|0)(?::|$)/.test(user)
  if (shellFile === '' || user === owner || isRoot) return
  throw new EgressError(
    'OPTION_INVALID',
    `post_create runs as ${user} and the nodes as ${owner}: a variable with a line break cannot be given to both; pin sandbox.user, or take it as a secret in a file`,
  )
}
