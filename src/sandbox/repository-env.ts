import type { Devcontainer } from './devcontainer/read-devcontainer.ts'
import { expandVariables } from './devcontainer/variables.ts'
import { filterEnvironment, isDenied } from './env-deny.ts'
import { isWithin, normalPath } from './paths.ts'

/** What a repository, and an image that it chose, add to the environment of a sandbox. */
export interface RepositoryEnvironment {
  /** What the repository adds. */
  readonly env: Readonly<Record<string, string>>
  /** What of the image's environment is taken away. */
  readonly unset: readonly string[]
  /** What was denied, by who wanted it. */
  readonly denied: readonly {
    readonly source: 'devcontainer' | 'image'
    readonly names: readonly string[]
  }[]
}

/**
 * The environment that a repository asks for, without what is for the operator and the workflow to say. `remoteEnv` goes
 * before `containerEnv`, and only its values may speak of what the container has.
 *
 * @param written the environment of the image
 * @param workspace where the workspace is inside
 */
export function repositoryEnvironment(
  { containerEnv, remoteEnv }: Devcontainer,
  written: Readonly<Record<string, string>>,
  workspace: string,
): RepositoryEnvironment {
  // Some engines take the blanks off a name.
  const imageEnv = Object.fromEntries(
    Object.entries(written).flatMap(([name, value]) => [
      [name, value],
      [name.trim(), value],
    ]),
  )
  const unset = Object.entries(imageEnv)
    .filter(([name, value]) => isDenied(name) && !isOwnPath(name, value, workspace))
    .map(([name]) => name)
  const image = Object.fromEntries(
    Object.entries(imageEnv).filter(([name]) => !unset.includes(name)),
  )
  const own = filterEnvironment(containerEnv)
  const known = { ...image, ...own.kept }
  const remote = filterEnvironment(
    Object.fromEntries(
      Object.entries(remoteEnv).map(([name, text]) => [name, expandContainerEnv(text, known)]),
    ),
  )
  const names = [...new Set([...own.denied, ...remote.denied])]
  return {
    env: { ...own.kept, ...remote.kept },
    unset,
    denied: [
      ...(names.length > 0 ? [{ source: 'devcontainer' as const, names }] : []),
      ...(unset.length > 0 ? [{ source: 'image' as const, names: unset }] : []),
    ],
  }
}

/**
 * The search path of an image is its own: every program in it is the image's as well. That holds as long as no part of it
 * is found in the workspace, or wherever a command happens to stand.
 */
function isOwnPath(name: string, value: string, workspace: string): boolean {
  if (name !== 'PATH') return false
  return value
    .split(':')
    .every(
      (part) =>
        part.startsWith('/') &&
        ![workspace, '/proc', '/dev'].some((folder) => isWithin(folder, normalPath(part))),
    )
}

function expandContainerEnv(text: string, containerEnv: Readonly<Record<string, string>>): string {
  const nowhere = { localWorkspaceFolder: '', containerWorkspaceFolder: '', devcontainerId: '' }
  // The others were filled in when the file was read, and what they brought in is not looked at again.
  return text.replaceAll(
    /\$\{containerEnv:[^{}]*\}/g,
    (one) => expandVariables(one, { env: {}, operatorEnv: {}, ...nowhere, containerEnv }).text,
  )
}
