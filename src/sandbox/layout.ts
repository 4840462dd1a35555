import {
  type Account,
  accountFiles,
  homeMounts,
  sandboxHome,
  userPlan,
  type UserPlan,
} from './account.ts'
import type { ContainerSpec, ImageInfo, TmpfsMount } from './driver.ts'
import { gitMounts } from './git-mounts.ts'
import { snapshotGit } from './git-guard.ts'
import { readGitPlace } from './git-place.ts'
import type { SandboxHost } from './host.ts'
import { type HostState as HostStateMounts, hostState } from './host-state.ts'
import { type BindMount, mergeMounts } from './mounts.ts'
import { attachmentMounts, checkMounts } from './operator-mounts.ts'
import { realStat } from './paths.ts'
import type { Scratch } from './scratch.ts'
import { SECRETS_TARGET } from './secrets.ts'
import type { HostState, SandboxBlock, Workflow } from './spec.ts'
import { STATUS_TARGET } from './status-file.ts'
import type { WorkspaceGuard } from './workspace-guard.ts'
import { workspaceMount } from './workspace-mount.ts'

/** What a file system in memory may hold, in bytes. */
const HOME_BYTES = 2 * 1024 ** 3
const SECRETS_BYTES = 16 * 1024 ** 2

/** Where things are in a sandbox, and who runs there. */
export interface Layout {
  readonly user: UserPlan
  readonly workdir: string
  readonly mounts: readonly BindMount[]
  readonly tmpfs: readonly TmpfsMount[]
  /** The home folder to set; undefined: what the image says. */
  readonly home: string | undefined
  /** Undefined: none is bound. */
  readonly hostState: HostStateMounts | undefined
  /** What has to be looked after when the container is gone. */
  readonly guard: WorkspaceGuard
  /** What is not there for the sandbox, or only to be read, and why. */
  readonly notes: readonly string[]
}

/** What a layout is made from. */
export interface LayoutQuestion {
  readonly host: SandboxHost
  readonly workflow: Workflow
  readonly block: SandboxBlock | undefined
  readonly hostState: HostState
  readonly workspace: string
  /** The folder that the workflow's relative paths start from. */
  readonly workflowDir: string
  readonly image: ImageInfo
  readonly scratch: Scratch
}

/**
 * Lays out a sandbox. What it makes on the host so that something can be bound over it is in `guard`.
 *
 * @throws {EgressError} SANDBOX_SPEC_UNSAFE for a workspace, mount or attachment that would open it
 */
export function layOut(question: LayoutQuestion): Layout {
  const { host, workflow, block, scratch, image } = question
  const places = { home: host.home, iterionHome: host.iterionHome, tempRoot: host.tempRoot }
  const workspace = workspaceMount(question.workspace, block?.workspaceFolder, places)
  const user = userPlan({ pinned: block?.user, imageUser: image.user, caller: host.user })
  const owner = ownerOf(user.user)
  const site = {
    ...places,
    workflowDir: question.workflowDir,
    workspace: workspace.mount,
    gitFolders: gitFoldersOf(workspace.mount.source),
  }
  const asked = checkMounts(block?.mounts ?? [], site)
  const attached = attachmentMounts(workflow.attachments, site)
  const writable = [workspace.mount, ...asked.filter((mount) => !mount.readOnly)]
  const git = writable.map((mount) => gitMounts(mount))
  const state =
    question.hostState === 'auto'
      ? hostState({ ...places, workspace: workspace.mount, owner, scratchBytes: HOME_BYTES })
      : undefined
  const account: Account = { ...host.user, home: host.home }
  const mounts = mergeMounts(
    [workspace.mount],
    asked,
    attached,
    git.flatMap((one) => one.mounts),
    state?.mounts ?? [],
    [{ source: scratch.status.path, target: STATUS_TARGET, readOnly: false }],
    user.needsAccount ? accountMounts(account, scratch) : [],
  )
  const targets = [...mounts, ...(state?.scratch ?? [])].map(({ target }) => target)
  return {
    user,
    workdir: workspace.workdir,
    mounts,
    tmpfs: [
      {
        target: SECRETS_TARGET,
        // Whose number only the image knows writes files there that are nobody else's to read or remove.
        mode: owner ? '0700' : '1777',
        owner,
        sizeBytes: SECRETS_BYTES,
        executable: false,
      },
      ...(user.needsAccount ? homeMounts(account, targets, HOME_BYTES) : []),
      ...(state?.scratch ?? []),
    ],
    home: user.needsAccount ? sandboxHome(account.home) : undefined,
    hostState: state,
    guard: {
      // After what the mounts need was made: that is no change.
      snapshots: writable
        .filter(({ source }) => realStat(source)?.isFolder === true)
        .map(({ source }) => snapshotGit(source)),
      made: [...git.flatMap((one) => one.made), ...(state?.made ?? [])],
    },
    notes: git.flatMap((one) => one.notes),
  }
}

/** The git folders of a workspace, which nothing else may bind with write access. */
function gitFoldersOf(workspace: string): readonly string[] {
  const place = readGitPlace(workspace)
  if (place.kind === 'plain') return [place.folder]
  return place.kind === 'worktree' ? [place.common] : []
}

/** The part of a container's spec that a layout decides. */
export function layoutSpec(
  layout: Layout,
): Pick<ContainerSpec, 'user' | 'workdir' | 'mounts' | 'tmpfs'> {
  const { user, workdir, mounts, tmpfs } = layout
  return { user: user.user, workdir, mounts, tmpfs }
}

function accountMounts(account: Account, scratch: Scratch): BindMount[] {
  const { passwd, group } = accountFiles(account)
  return [
    { source: scratch.write('passwd', passwd, 0o644), target: '/etc/passwd', readOnly: true },
    { source: scratch.write('group', group, 0o644), target: '/etc/group', readOnly: true },
  ]
}

/** The numbers of a user; undefined if only the image knows them. */
function ownerOf(user: string): { uid: number; gid: number } | undefined {
  const match = /^(\d+)(?::(\d+))?$/.exec(user)
  return match ? { uid: Number(match[1]), gid: Number(match[2] ?? 0) } : undefined
}
