import { EgressError } from '../errors.ts'
import { type ContainerNode, startContainerNode } from './node-process.ts'
import type { SandboxRequest } from './sandbox.ts'

/** What of its output an error repeats, in lines. */
const LAST_LINES = 10

/** How long it may take to look at scripts in the sandbox, in milliseconds. */
const LOOK_TIMEOUT_MS = 5_000

const WINDOWS_LINE_ENDS =
  'A script has Windows line ends, and their carriage return is taken for part of a name: convert it to LF, and keep it so by eol=lf in .gitattributes or by git config core.autocrlf input.'

/** A carriage return that is taken for part of a name, in the words of bash, dash, zsh and env. */
const SHOWN_RETURN =
  /(?:\r|\\r|\^M)['"’”]?: (?:bad interpreter|(?:command )?not found|No such file or directory|invalid option)|bad interpreter: [^\n]*\^M|illegal option -\r|can't cd to [^\n]*\r/i

/** What shells, env, Node.js and Python say of a script whose interpreter is not there: that the script is not. */
const NOT_FOUND =
  /(?:^|: )(?:spawn(?:Sync)? )?['‘]?([^:'‘’\n]+)['’]?(?:: (?:cannot execute: required file not found|not found|No such file or directory)| ENOENT)$|No such file or directory: '([^'\n]+)'$/gm

/** Answers 0 if one of the scripts that it is given names its interpreter in a line that ends in a carriage return. */
const LOOK = `
cr=$(printf '\\r')
for name do
  case $name in */*) file=$name ;; *) file=$(command -v "$name") ;; esac
  [ -f "$file" ] || continue
  line=
  IFS= read -r line < "$file"
  case $line in '#!'*"$cr") exit 0 ;; esac
done
exit 1
`

/**
 * Runs the command that finishes an image. What it prints goes to `stderr`, so that standard output stays that of the
 * workflow. When `signal` ends the waiting, the command ends with its container.
 *
 * @throws {EgressError} SANDBOX_SETUP_FAILED with its exit code, its last lines, and why if it is known
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
  const text = tail.trimEnd()
  const lines = text.split('\n').slice(-LAST_LINES).join('\n')
  // What a line ends in counts here, and is nothing to show.
  const said = lines + tail.slice(text.length)
  const why = (await hasWindowsLineEnds(said, node, signal)) ? `. ${WINDOWS_LINE_ENDS}` : ':'
  throw new EgressError('SANDBOX_SETUP_FAILED', `post_create ended with ${code}${why}\n${lines}`)
}

/**
 * Whether a command failed by the line ends of a script. Most shells say only that the script is not found, so the scripts
 * that they name are looked at: in the sandbox, since what they are is what the sandbox wrote.
 */
async function hasWindowsLineEnds(
  said: string,
  { driver, exec }: ContainerNode,
  signal: AbortSignal,
): Promise<boolean> {
  if (SHOWN_RETURN.test(said)) return true
  const names = [...said.matchAll(NOT_FOUND)].map(([, first, second]) => first ?? second ?? '')
  if (names.length === 0) return false
  const command = ['/bin/sh', '-c', LOOK, 'sh', ...new Set(names)]
  const options = { signal, timeoutMs: LOOK_TIMEOUT_MS }
  try {
    return (await driver.run({ ...exec, command }, options)).code === 0
  } catch {
    return false
  }
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
