import { EgressError } from '../errors.ts'
import { judgeMounts, programReason, type RepositoryMounts } from './devcontainer/judge-mounts.ts'
import type { Devcontainer } from './devcontainer/read-devcontainer.ts'
import type { MountSite } from './operator-mounts.ts'
import { isWithin, normalPath, realOf } from './paths.ts'

/** Where a repository wants the workspace inside. */
export interface WorkspaceWish {
  /** Where it is bound; undefined: where it is outside. */
  readonly target: string | undefined
  /** Where commands start; undefined: at its top. */
  readonly workdir: string | undefined
}

/**
 * Where a repository wants the workspace. A `workspaceMount` says where, and not what: it is of the workspace.
 *
 * @param workspace the workspace outside, real
 * @throws {EgressError} SANDBOX_SPEC_UNSAFE for one of something else
 */
export function workspaceWish(devcontainer: Devcontainer, workspace: string): WorkspaceWish {
  const { workspaceMount: mount, workspaceFolder } = devcontainer
  const place = mount?.target ?? workspaceFolder
  const obeyed = place === undefined ? undefined : programReason(normalPath(place))
  if (obeyed !== undefined) {
    throw devcontainer.problemAt([mount ? 'workspaceMount' : 'workspaceFolder'], obeyed)
  }
  if (mount === undefined) return { target: workspaceFolder, workdir: undefined }
  const fail = (reason: string) => devcontainer.problemAt(['workspaceMount'], reason)
  const isWorkspace = mount.source.startsWith('/') && realOf(mount.source) === workspace
  if (mount.type !== 'bind' || !isWorkspace) throw fail('it is not a bind of the workspace')
  if (mount.readOnly) throw fail('the workspace is bound with write access')
  const target = normalPath(mount.target)
  if (workspaceFolder !== undefined && !isWithin(target, workspaceFolder)) {
    throw devcontainer.problemAt(
      ['workspaceFolder'],
      `it is not in ${target}, where the workspace is bound`,
    )
  }
  return { target, workdir: workspaceFolder }
}

/**
 * What a repository has mounted, judged.
 *
 * @throws {EgressError} SANDBOX_SPEC_UNSAFE with every entry that is refused
 */
export function repositoryMounts(devcontainer: Devcontainer, site: MountSite): RepositoryMounts {
  let refused: EgressError | undefined
  const mounts = judgeMounts(devcontainer.mounts, site, (index, reason) => {
    refused = devcontainer.problemAt(['mounts', index], reason)
  })
  if (refused) throw refused
  return mounts
}
