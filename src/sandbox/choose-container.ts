import { EgressError } from '../errors.ts'
import type { Devcontainer } from './devcontainer/read-devcontainer.ts'
import { isImageReference } from './image-reference.ts'
import type { BuildSpec, SandboxBlock } from './spec.ts'

/** Where the image of `auto` comes from if nothing else names one. */
const SLIM_IMAGE = 'ghcr.io/socialgouv/iterion-sandbox-slim'

/** The image of `auto` where neither workflow nor repository names one. */
export interface DefaultImage {
  /** `--sandbox-default-image`. */
  readonly flag?: string | undefined
  /** `ITERION_SANDBOX_DEFAULT_IMAGE`. */
  readonly env?: string | undefined
  /** The version of this program: the tag of the image that holds without the two. */
  readonly version: string
}

/** The sandbox that a repository defines. */
export interface RepositorySandbox {
  readonly file: string
  readonly image?: string | undefined
  readonly build?: BuildSpec | undefined
  /** SHA-256 of the file, in hex. */
  readonly digest?: string
  /** What else it says. */
  readonly devcontainer?: Devcontainer
  /** Why it must not be used. */
  readonly fault?: EgressError
}

/** What the container is made from, and who named it. */
export type ChosenContainer = {
  readonly from: 'block' | 'repository' | 'flag' | 'env' | 'default'
} & (
  | { readonly image: string }
  | { readonly build: BuildSpec }
  /** What was chosen is refused. */
  | { readonly fault: EgressError }
)

interface ContainerRequest {
  readonly workflow: SandboxBlock | undefined
  readonly repository?: RepositorySandbox | undefined
  readonly defaultImage: DefaultImage
}

/**
 * The container of a run that gets one: the block's own, the repository's (also if that is refused), then the default image: the flag's, the
 * variable's, or the slim image of this version.
 *
 * @throws {EgressError} OPTION_INVALID for a default image that cannot be one, also where it is not needed
 */
export function chooseContainer(request: ContainerRequest): ChosenContainer {
  const { workflow, repository, defaultImage } = request
  const { flag, env, version } = defaultImage
  checkImage('--sandbox-default-image ', flag)
  checkImage('ITERION_SANDBOX_DEFAULT_IMAGE=', env)
  if (workflow?.build !== undefined) return { from: 'block', build: workflow.build }
  if (workflow?.image !== undefined) return { from: 'block', image: workflow.image }
  if (repository?.fault !== undefined) return { from: 'repository', fault: repository.fault }
  if (repository?.build !== undefined) return { from: 'repository', build: repository.build }
  if (repository?.image !== undefined) return { from: 'repository', image: repository.image }
  if (flag !== undefined) return { from: 'flag', image: flag }
  if (env !== undefined) return { from: 'env', image: env }
  return { from: 'default', image: `${SLIM_IMAGE}:${version}` }
}

function checkImage(label: string, image: string | undefined): void {
  if (image === undefined || isImageReference(image)) return
  throw new EgressError(
    'OPTION_INVALID',
    `${label}${JSON.stringify(image)}: that cannot be the name of an image`,
  )
}
