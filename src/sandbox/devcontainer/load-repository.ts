import { EgressError } from '../../errors.ts'
import type { RepositorySandbox } from '../choose-container.ts'
import type { SandboxHost } from '../host.ts'
import { digestOf } from '../digest.ts'
import { realStat } from '../paths.ts'
import { devcontainerName, readDevcontainerFile, strangerOf } from './find-devcontainer.ts'
import { readDevcontainer } from './read-devcontainer.ts'

/** What a repository is read with. */
interface RepositoryQuestion {
  readonly host: Pick<SandboxHost, 'env' | 'user'>
  /** Its folder. */
  readonly repository: string
  /** The folder that the sandbox works in. */
  readonly workspace: string
  /** What the operator gives this run. */
  readonly operatorEnv: Readonly<Record<string, string>>
}

/**
 * The sandbox that a repository defines; undefined if it defines none. A file that is refused is still an answer: a run
 * that would have used it does not start, and gets no other container instead.
 */
export function loadRepository(question: RepositoryQuestion): RepositorySandbox | undefined {
  const { host, repository, operatorEnv } = question
  const root = realStat(repository)?.real ?? repository
  const workspace = realStat(question.workspace)?.real ?? question.workspace
  const name = devcontainerName(root)
  if (name === undefined) return undefined
  try {
    const stranger = strangerOf(root, name, workspace, host.user.uid)
    if (stranger !== undefined) {
      throw new EgressError(
        'SANDBOX_SPEC_UNSAFE',
        `${name}: ${root}, or the file, belongs to UID ${stranger}, who is neither you nor the owner of the workspace`,
      )
    }
    const file = readDevcontainerFile(root, name)
    const devcontainer = readDevcontainer(file, root, {
      env: host.env,
      operatorEnv,
      localWorkspaceFolder: workspace,
      containerWorkspaceFolder: workspace,
      devcontainerId: digestOf([root, name]).slice(0, 52),
    })
    const { image, build } = devcontainer
    return { file: name, image, build, devcontainer, digest: digestOf(file.text) }
  } catch (error) {
    if (error instanceof EgressError) return { file: name, fault: error }
    throw error
  }
}
