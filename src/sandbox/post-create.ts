import { EgressError } from '../errors.ts'
import { type ContainerNode, startContainerNode } from './node-process.ts'
import type { SandboxRequest } from './sandbox.ts'

/** What of its output an error repeats, in lines. */
const LAST_LINES = 10

/**
 * Runs the command that finishes an image. What it prints goes to `stderr`, so that standard output stays that of the
 * workflow. When `signal` ends the waiting, the command ends with its container.
 *
 * @throws {EgressError} SANDBOX_SETUP_FAILED with its exit code and its last lines
 */
export async function runPostCreate(
  node: ContainerNode,
  stderr: (text: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const { done, output } = startContainerNode(node, ['ignore', 'pipe', 'pipe'])
  let tail = ''
  for (const stream of output) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      stderr(text)
      tail = `${tail}${text}`.slice(-8_192)
    })
  }
  const aborted = new Promise<never>((_, reject) => {
    const stop = () => reject(signal.reason as Error)
    signal.addEventListener('abort', stop, { once: true })
    if (signal.aborted) stop()
  })
  const code = await Promise.race([done, aborted])
  if (code === 0) return
  const lines = tail.trimEnd().split('\n').slice(-LAST_LINES).join('\n')
  throw new EgressError('SANDBOX_SETUP_FAILED', `post_create ended with ${code}:\n${lines}`)
}

/** Commands that finish an image, and who runs them. Those of one step run at once. */
export interface PostCreate {
  readonly atOnce: readonly (string | readonly string[])[]
  readonly user: string
}

/**
 * First the repository's, as who the nodes run as: it is given no more than they are. Then the workflow's, as the image's
 * user: it installs what the image's author would have.
 */
export function postCreatesOf(
  { block, repository }: SandboxRequest,
  nodeUser: string,
  imageUser: string,
): readonly PostCreate[] {
  const own = block?.postCreate
  const theirs = repository?.postCreate ?? []
  return [
    ...(theirs.length > 0 ? [{ atOnce: theirs, user: nodeUser }] : []),
    ...(own === undefined ? [] : [{ atOnce: [own], user: block?.user ?? imageUser }]),
  ]
}
