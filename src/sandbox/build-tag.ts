import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { lstat, readdir, readlink } from 'node:fs/promises'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { EgressError } from '../errors.ts'

/** A build, its paths absolute. */
export interface BuildInput {
  readonly dockerfile: string
  readonly context: string
  readonly args: Readonly<Record<string, string>>
  /** The stage to build; undefined: the last one. */
  readonly target: string | undefined
}

/**
 * The name of the image that a build makes: a digest of all that goes into it, so that equal builds share an image. What
 * the context holds counts whether or not it is copied.
 *
 * @throws {EgressError} FILE_UNREADABLE
 * @param network how the build reaches out; an image that was built in the open is not one that was built behind a door
 */
export async function buildTag(
  input: BuildInput,
  network: 'open' | 'sealed',
  signal: AbortSignal,
): Promise<string> {
  try {
    return await digestOfBuild(input, network, signal)
  } catch (error) {
    signal.throwIfAborted()
    const why = (error as Error).message
    throw new EgressError(
      'FILE_UNREADABLE',
      `the build of ${input.dockerfile} in ${input.context} cannot be read: ${why}`,
      { cause: error },
    )
  }
}

async function digestOfBuild(
  { dockerfile, context, args, target }: BuildInput,
  network: 'open' | 'sealed',
  signal: AbortSignal,
): Promise<string> {
  const hash = createHash('sha256')
  const add = (...parts: readonly (string | number)[]) => hash.update(`${JSON.stringify(parts)}\n`)
  const sorted = Object.entries(args).toSorted(([a], [b]) => (a < b ? -1 : 1))
  add(1, network, target ?? '', JSON.stringify(sorted))
  await addFile(dockerfile)
  await addFolder(context, '')
  return `iterion-egress-build:${hash.digest('hex').slice(0, 40)}`

  async function addFolder(folder: string, name: string): Promise<void> {
    const entries = await readdir(folder)
    for (const entry of entries.toSorted()) {
      signal.throwIfAborted()
      const [file, inner] = [path.join(folder, entry), `${name}/${entry}`]
      const stat = await lstat(file)
      if (stat.isDirectory()) {
        add('folder', inner, stat.mode)
        await addFolder(file, inner)
      } else if (stat.isSymbolicLink()) {
        add('link', inner, await readlink(file))
      } else if (stat.isFile()) {
        add('file', inner, stat.mode, stat.size)
        await addFile(file)
      }
    }
  }

  async function addFile(file: string): Promise<void> {
    const own = createHash('sha256')
    await pipeline(createReadStream(file), own, { signal })
    add(own.digest('hex'))
  }
}
