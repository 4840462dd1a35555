import type { RuntimeName } from '../door/container-runtime.ts'
import type { ContainerSpec, ImageInfo } from './driver.ts'
import { DIFFERENCES } from './drivers/differences.ts'
import type { SandboxHost } from './host.ts'
import { containerName } from './labels.ts'
import { type Layout, layoutSpec } from './layout.ts'
import type { RepositoryEnvironment } from './repository-env.ts'
import type { SandboxRequest } from './sandbox.ts'
import { hostnameOf } from './name-files.ts'
import { isSealed } from './sandbox-network.ts'

/** What a container is made from, beside what was asked for. */
export interface ContainerParts {
  readonly runId: string
  /** Whose it is. */
  readonly labels: ContainerSpec['labels']
  readonly runtime: RuntimeName
  readonly user: SandboxHost['user']
  readonly image: ImageInfo
  readonly layout: Layout
  readonly repositoryEnv: RepositoryEnvironment | undefined
  /** The files of {@link ContainerSpec}. */
  readonly idFile: string
  readonly seccompFile: string
}

/** The container of a run. A run and its forecast ask here. */
export function containerSpec(request: SandboxRequest, parts: ContainerParts): ContainerSpec {
  const { runId, labels, runtime, user, image, layout, repositoryEnv } = parts
  return {
    name: containerName(runId),
    image: image.id,
    labels,
    network: isSealed(request) ? 'none' : 'bridge',
    idFile: parts.idFile,
    seccompFile: parts.seccompFile,
    unsetEnv: repositoryEnv?.unset ?? [],
    hostname: isSealed(request) ? hostnameOf(request.repository?.engineArgs ?? []) : undefined,
    engineArgs: request.repository?.engineArgs ?? [],
    pidsLimit: request.pidsLimit,
    memoryBytes: request.memoryBytes,
    imageVolumes: image.volumes,
    ...layoutSpec(layout),
    // The first process is root's where that arms nobody else: commands of the sandbox's user cannot hold it up, and
    // `post_create` as root can do what root can. But no program of a repository's image is root for who is not.
    ...(DIFFERENCES[runtime].arms === 'root' && !isForeign(request, user) && { user: '0:0' }),
  }
}

/** A container that holds a namespace without a network, and nothing of anybody. */
export function holderSpec(
  parts: Pick<ContainerParts, 'image' | 'labels' | 'idFile' | 'seccompFile'> &
    Pick<ContainerSpec, 'name' | 'pidsLimit' | 'memoryBytes'>,
): ContainerSpec {
  const { image, ...rest } = parts
  return {
    ...rest,
    image: image.id,
    imageVolumes: image.volumes,
    user: '0:0',
    workdir: '/',
    network: 'none',
    mounts: [],
    volumes: [],
    tmpfs: [],
    unsetEnv: [],
    hostname: undefined,
    engineArgs: [],
  }
}

/** Who the workflow's `post_create` runs as if it names nobody: the user of the image, unless a repository chose that. */
export function imageUserOf(
  request: Pick<SandboxRequest, 'repository'>,
  { image, layout, user }: Pick<ContainerParts, 'image' | 'layout' | 'user'>,
): string {
  return isForeign(request, user) ? layout.user.user : image.user || 'root'
}

/** True if a repository chose the image of a caller who is not root: what root writes is root's outside too. */
function isForeign(
  { repository }: Pick<SandboxRequest, 'repository'>,
  { uid }: SandboxHost['user'],
): boolean {
  return repository !== undefined && uid !== 0
}
