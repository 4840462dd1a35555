import type { DoorChoice } from '../door/door.ts'
import { stubAddress } from '../door/synthetic-names.ts'
import { EgressError } from '../errors.ts'
import { DEFAULT_DOOR } from '../policy/door-range.ts'
import {
  type Account,
  accountFiles,
  homeMounts,
  sandboxHome,
  userPlan,
  type UserPlan,
} from './account.ts'
import { usesClaw } from './backend.ts'
import { CLAW_TARGET, clawMount } from './claw-binary.ts'
import type { RepositoryMounts } from './devcontainer/judge-mounts.ts'
import type { Devcontainer } from './devcontainer/read-devcontainer.ts'
import type { ContainerSpec, ImageInfo, TmpfsMount } from './driver.ts'
import { idMapping } from './drivers/find-runtime.ts'
import { gitMounts } from './git-mounts.ts'
import { snapshotGit } from './git-guard.ts'
import { readGitPlace } from './git-place.ts'
import type { SandboxHost } from './host.ts'
import { type HostState as HostStateMounts, hostState } from './host-state.ts'
import type { Maker } from './maker.ts'
import type { HostPlaces } from './mount-rules.ts'
import { type BindMount, mergeMounts } from './mounts.ts'
import { hostnameOf, hostsFile, RESOLVER_FILE, resolverFile } from './name-files.ts'
import { operatorMounts } from './operator-mounts.ts'
import { isWithin, realOf, realStat } from './paths.ts'
import { repositoryMounts, workspaceWish } from './repository-layout.ts'
import type { Scratch } from './scratch.ts'
import { isSealed } from './sandbox-network.ts'
import { SECRETS_TARGET } from './secrets.ts'
import type { HostState, SandboxBlock, Workflow } from './spec.ts'
import { STATUS_TARGET } from './status-file.ts'
import type { WorkspaceGuard } from './workspace-guard.ts'
import { type WorkspacePlace, workspaceMount } from './workspace-mount.ts'

/** What a file system in memory may hold, in bytes. */
const HOME_BYTES = 2 * 1024 ** 3
const SECRETS_BYTES = 16 * 1024 ** 2

/** Where things are in a sandbox, and who runs there. */
export interface Layout {
  readonly user: UserPlan
  readonly workdir: string
  readonly mounts: readonly BindMount[]
  /** Volumes without a name, which go with the container. */
  readonly volumes: ContainerSpec['volumes']
  readonly tmpfs: readonly TmpfsMount[]
  /** The home folder to set; undefined: what the image says. */
  readonly home: string | undefined
  /** Undefined: none is bound. */
  readonly hostState: HostStateMounts | undefined
  /** What has to be looked after when the container is gone. */
  readonly guard: WorkspaceGuard
  /** The `iterion` that runs claw inside, a name on PATH or a path. */
  readonly iterion: string
  /** The program of this machine that it is; undefined if it is the image's, or no node runs by claw. */
  readonly clawBinary: string | undefined
  /** What is not there for the sandbox, or only to be read, and why. */
  readonly notes: readonly string[]
}

/** What a layout is made from. */
export interface LayoutQuestion {
  readonly host: SandboxHost
  readonly workflow: Workflow
  readonly block: SandboxBlock | undefined
  /** What the repository says, if it defines the sandbox. */
  readonly repository: Devcontainer | undefined
  readonly hostState: HostState
  /** False: the network is open. */
  readonly hasPolicy: boolean
  readonly door: DoorChoice
  readonly workspace: string
  /** The folder that the workflow's relative paths start from. */
  readonly workflowDir: string
  readonly image: Pick<ImageInfo, 'user'>
  /** Where files for it are written. */
  readonly scratch: Pick<Scratch, 'write'> & { readonly status: { readonly path: string } }
  /** Makes what is missing to be bound over; default: really. */
  readonly maker?: Maker
  /** Real paths of folders that will be there, although they are not yet. */
  readonly recorded?: readonly string[]
}

/**
 * Lays out a sandbox. What it makes on the host so that something can be bound over it is in `guard`.
 *
 * @throws {EgressError} SANDBOX_SPEC_UNSAFE for a workspace, mount or attachment that would open it;
 * SANDBOX_DOOR_FAILED for an advisory run in a rootless engine; OPTION_INVALID for an `ITERION_BIN` that cannot be bound
 */
export function layOut(question: LayoutQuestion): Layout {
  const { host, workflow, block, repository, scratch, image } = question
  const places = { home: host.home, iterionHome: host.iterionHome, tempRoot: host.tempRoot }
  const wish =
    repository && block?.workspaceFolder === undefined
      ? workspaceWish(repository, realOf(question.workspace))
      : undefined
  const folder = block?.workspaceFolder ?? wish?.target
  const workspace = placeWorkspace(question, folder, places)
  const ids = idMapping(host)
  if (ids === 'root-is-caller' && question.hasPolicy && question.door === 'advisory') {
    throw new EgressError(
      'SANDBOX_DOOR_FAILED',
      'a rootless engine has its bridge in a namespace of its own, where the proxy cannot listen: no advisory run there; take --door netns, which needs no root there',
    )
  }
  const user = userPlan({ ...userOf(block, repository, image, host.user), caller: host.user, ids })
  const owner = ownerOf(user.user)
  const site = {
    ...places,
    workflowDir: question.workflowDir,
    workspace: workspace.mount,
    gitFolders: gitFoldersOf(workspace.mount.source),
  }
  const { mounts: asked, attachments: attached } = operatorMounts(
    block?.mounts ?? [],
    workflow.attachments,
    site,
  )
  const theirs = repository ? repositoryMounts(repository, site) : NO_MOUNTS
  const writable = [workspace.mount, ...[...asked, ...theirs.binds].filter((one) => !one.readOnly)]
  const git = writable.map((mount) => gitMounts(mount, question.maker))
  const state =
    question.hostState === 'auto'
      ? hostState({
          ...places,
          workspace: workspace.mount,
          owner,
          scratchBytes: HOME_BYTES,
          ...(question.maker && { maker: question.maker }),
          ...(question.recorded && { recorded: question.recorded }),
        })
      : undefined
  const account: Account = { ...host.user, ...owner, home: host.home }
  // Where root stands for the caller its home is the image's, unless there is state to be found in the caller's.
  const bringsHome = ids === 'root-is-caller' && user.user === '0:0' && state !== undefined
  const hasHome = user.needsAccount || bringsHome
  const mounts = mergeMounts(
    [workspace.mount],
    asked,
    theirs.binds,
    attached,
    git.flatMap((one) => one.mounts),
    state?.mounts ?? [],
    [{ source: scratch.status.path, target: STATUS_TARGET, readOnly: false }],
    user.needsAccount ? accountMounts(account, scratch) : [],
    isSealed(question) ? nameMounts(question) : [],
    clawMounts(question, asked),
  )
  const iterion = mounts.find(({ target }) => target === CLAW_TARGET)
  const targets = [...mounts, ...(state?.scratch ?? [])].map(({ target }) => target)
  return {
    user,
    workdir: wish?.workdir ?? workspace.workdir,
    mounts,
    volumes: theirs.volumes,
    tmpfs: [
      {
        target: SECRETS_TARGET,
        // Whose number only the image knows writes files there that are nobody else's to read or remove.
        mode: owner ? '0700' : '1777',
        owner,
        sizeBytes: SECRETS_BYTES,
        executable: false,
      },
      ...(hasHome ? homeMounts(account, targets, HOME_BYTES) : []),
      ...(state?.scratch ?? []),
      ...theirs.tmpfs.map((target) => ({
        target,
        mode: '0755',
        owner,
        sizeBytes: HOME_BYTES,
        executable: true,
      })),
    ],
    home: hasHome ? sandboxHome(account.home) : undefined,
    hostState: state,
    guard: {
      // After what the mounts need was made: that is no change.
      snapshots: writable
        .filter(({ source }) => realStat(source)?.isFolder === true)
        .map(({ source }) => snapshotGit(source)),
      made: [...git.flatMap((one) => one.made), ...(state?.made ?? [])],
    },
    iterion: iterion ? CLAW_TARGET : 'iterion',
    clawBinary: usesClaw(workflow.nodes) ? iterion?.source : undefined,
    notes: [...git.flatMap((one) => one.notes), ...rootNote(repository, block, user)],
  }
}

/**
 * Who is pinned, and whom the caller stands for. A repository chooses a user for root alone: what root, or anybody else,
 * writes into the workspace is theirs outside too, and a name or a number is whoever the image says.
 */
function userOf(
  block: SandboxBlock | undefined,
  repository: Devcontainer | undefined,
  image: LayoutQuestion['image'],
  caller: SandboxHost['user'],
): { readonly pinned: string | undefined; readonly imageUser: string } {
  const theirs = repository?.user
  if (block?.user !== undefined || theirs === undefined) {
    return { pinned: block?.user, imageUser: image.user }
  }
  return caller.uid === 0
    ? { pinned: theirs, imageUser: '' }
    : { pinned: undefined, imageUser: theirs }
}

function rootNote(
  repository: Devcontainer | undefined,
  block: SandboxBlock | undefined,
  { remap }: UserPlan,
): readonly string[] {
  if (repository?.user === undefined || block?.user !== undefined || !remap) return []
  return [
    `${repository.file}: ${repository.user} is not taken: commands run as the caller, ${remap.to}`,
  ]
}

const NO_MOUNTS: RepositoryMounts = { binds: [], volumes: [], tmpfs: [] }

/** The workspace, which a repository may want at a place that is refused: then its file is what has to change. */
function placeWorkspace(
  { workspace, block, repository }: LayoutQuestion,
  folder: string | undefined,
  places: HostPlaces,
): WorkspacePlace {
  try {
    return workspaceMount(workspace, folder, places)
  } catch (error) {
    const isTheirs = repository && folder !== undefined && block?.workspaceFolder === undefined
    if (!isTheirs || !(error instanceof EgressError)) throw error
    const key = repository.workspaceMount ? 'workspaceMount' : 'workspaceFolder'
    throw repository.problemAt([key], error.message)
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
): Pick<ContainerSpec, 'user' | 'workdir' | 'mounts' | 'volumes' | 'tmpfs'> {
  const { user, workdir, mounts, volumes, tmpfs } = layout
  return { user: user.user, workdir, mounts, volumes, tmpfs }
}

/** The `iterion` of this machine, unless the workflow binds one itself. */
function clawMounts({ host, workflow }: LayoutQuestion, asked: readonly BindMount[]): BindMount[] {
  // A folder that is bound over its place brings one, or nothing: a mount point cannot be made in it.
  if (!usesClaw(workflow.nodes) || asked.some(({ target }) => isWithin(target, CLAW_TARGET))) {
    return []
  }
  const mount = clawMount(host)
  return mount ? [mount] : []
}

function accountMounts(account: Account, scratch: LayoutQuestion['scratch']): BindMount[] {
  const { passwd, group } = accountFiles(account)
  return [
    { source: scratch.write('passwd', passwd, 0o644), target: '/etc/passwd', readOnly: true },
    { source: scratch.write('group', group, 0o644), target: '/etc/group', readOnly: true },
  ]
}

/** The resolver of a door, and the sandbox's own name. */
function nameMounts({ repository, scratch }: LayoutQuestion): BindMount[] {
  const resolver = resolverFile(stubAddress(DEFAULT_DOOR.syntheticRange))
  const hosts = hostsFile(hostnameOf(repository?.engineArgs ?? []))
  return [
    {
      source: scratch.write(RESOLVER_FILE, resolver, 0o644),
      target: '/etc/resolv.conf',
      readOnly: true,
    },
    { source: scratch.write('hosts', hosts, 0o644), target: '/etc/hosts', readOnly: true },
  ]
}

/** The numbers of a user; undefined if only the image knows them. */
function ownerOf(user: string): { uid: number; gid: number } | undefined {
  const match = /^(\d+)(?::(\d+))?$/.exec(user)
  return match ? { uid: Number(match[1]), gid: Number(match[2] ?? 0) } : undefined
}
