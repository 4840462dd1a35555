import { posix } from 'node:path'
import type { TmpfsMount } from './driver.ts'

/** How the ids of a container's users relate to those of the host. */
export type IdMapping =
  /** The same numbers: an engine that runs as root on Linux. */
  | 'same'
  /** Root inside is the caller outside: a rootless engine. */
  | 'root-is-caller'
  /** Every file belongs to the caller whoever writes it: an engine in a virtual machine of a desktop. */
  | 'all-are-caller'

/** What decides who runs in a sandbox. */
export interface UserQuestion {
  /** `user:` of the spec; undefined: nobody is pinned. */
  readonly pinned: string | undefined
  /** The image's own user as the engine tells it: `''`, a name, a number, or either with a group. */
  readonly imageUser: string
  readonly caller: { readonly uid: number; readonly gid: number }
  /** Default: `same`. */
  readonly ids?: IdMapping
}

/** Who runs in a sandbox. */
export interface UserPlan {
  /** For `--user`: UID:GID, a pinned user as written, or empty for the image's own. */
  readonly user: string
  /** The image's user and who runs in its place; for `sandbox_user_remap`. */
  readonly remap?: { readonly from: string; readonly to: string }
  /** A pinned user who is not the caller, or may not be; for `sandbox_uid_mismatch_warning`. */
  readonly mismatch?: { readonly user: string; readonly caller: string; readonly message: string }
  /** True if the image may not know the user: passwd and group are then generated, and HOME is a tmpfs. */
  readonly needsAccount: boolean
}

/** The account that a sandbox runs as. */
export interface Account {
  readonly uid: number
  readonly gid: number
  /** As the host knows it; letters that passwd cannot hold are replaced. */
  readonly name: string
  readonly home: string
}

/** Where a home is that cannot be where the host has it. */
const OTHER_HOME = '/home/sandbox'
/** Folders of every image; a tmpfs over one of them, or inside it, would hide programs. */
const IMAGE_TREES = ['/bin', '/boot', '/dev', '/etc', '/lib', '/lib32', '/lib64', '/libx32'].concat(
  ['/proc', '/run', '/sbin', '/sys', '/usr'],
)
/** Folders that a tmpfs may be inside of, but not over. */
const IMAGE_FOLDERS = ['/', '/home', '/media', '/mnt', '/opt', '/srv', '/tmp', '/var', '/var/lib']

/** Accounts that programs of any image look up; `_apt` is who apt fetches as when root runs it. */
const USERS = [
  { name: 'root', uid: 0, gid: 0, home: '/root', shell: '/bin/sh' },
  { name: '_apt', uid: 42, gid: 65534, home: '/nonexistent', shell: '/usr/sbin/nologin' },
  { name: 'nobody', uid: 65534, gid: 65534, home: '/nonexistent', shell: '/usr/sbin/nologin' },
]
const GROUPS = [
  { name: 'root', gid: 0 },
  { name: 'tty', gid: 5 },
  { name: 'nogroup', gid: 65534 },
]

/**
 * Who runs in a sandbox: the pinned user, else the caller, so that what the sandbox writes belongs to the caller. Where
 * root inside is the caller outside, that is root; where the engine gives all files to the caller, the image's user.
 */
export function userPlan(question: UserQuestion): UserPlan {
  const { pinned, imageUser, caller, ids = 'same' } = question
  const own = ids === 'root-is-caller' ? { uid: 0, gid: 0 } : caller
  if (pinned !== undefined) {
    const mismatch = ids === 'all-are-caller' ? undefined : mismatchOf(pinned, own, caller)
    return { user: pinned, needsAccount: false, ...(mismatch && { mismatch }) }
  }
  if (ids === 'all-are-caller') return { user: '', needsAccount: false }
  const user = `${own.uid}:${own.gid}`
  return {
    user,
    needsAccount: own.uid !== 0,
    ...(!isUser(imageUser, own) && { remap: { from: imageUser, to: user } }),
  }
}

function mismatchOf(
  user: string,
  own: { uid: number },
  caller: { uid: number; gid: number },
): UserPlan['mismatch'] {
  const uid = uidOf(user)
  if (uid === own.uid) return undefined
  const hint = own.uid === caller.uid ? '' : '; with a rootless engine root is the caller'
  const message =
    uid === undefined
      ? `whether ${user} is the caller depends on the image: files may belong to somebody else on either side`
      : `files that the sandbox makes in the workspace belong to UID ${uid} on its side, and it may not write the caller's`
  return { user, caller: `${caller.uid}:${caller.gid}`, message: message + hint }
}

function isUser(text: string, { uid, gid }: { uid: number; gid: number }): boolean {
  if (uidOf(text) !== uid) return false
  const group = text.split(':')[1]
  return group === undefined || group === String(gid) || (group === 'root' && gid === 0)
}

/** The number that a user means in every image; undefined if only the image knows. */
function uidOf(user: string): number | undefined {
  const name = user.split(':')[0] ?? ''
  if (name === '' || name === 'root') return 0
  return /^\d+$/.test(name) ? Number(name) : undefined
}

/** The text of `/etc/passwd` and `/etc/group` in which an account has a name, beside those every image has. */
export function accountFiles(account: Account): {
  readonly passwd: string
  readonly group: string
} {
  const { uid, gid } = account
  const name = accountName(account.name)
  const own = { name, uid, gid, home: sandboxHome(account.home), shell: '/bin/sh' }
  const users = uid === 0 ? USERS : [...USERS.filter((user) => user.uid !== uid), own]
  const groups = GROUPS.some((group) => group.gid === gid) ? GROUPS : [...GROUPS, { name, gid }]
  return {
    passwd: users
      .map((one) => `${one.name}:x:${one.uid}:${one.gid}:${one.name}:${one.home}:${one.shell}\n`)
      .join(''),
    group: groups.map((one) => `${one.name}:x:${one.gid}:\n`).join(''),
  }
}

/** A name that passwd can hold and that is nobody else's. */
function accountName(name: string): string {
  const clean = name
    .toLowerCase()
    .replaceAll(/[^a-z0-9_-]/g, '_')
    .slice(0, 32)
  const isTaken = [...USERS, ...GROUPS].some((one) => one.name === clean)
  return isTaken || !/^[a-z_]/.test(clean) ? 'sandbox' : clean
}

/**
 * The home of an account inside: the same path as on the host, so that paths written there mean the same, unless a
 * tmpfs there would hide the image's own programs or the path cannot be written in passwd.
 */
export function sandboxHome(home: string): string {
  const path = home.length > 1 ? home.replace(/\/+$/, '') : home
  const isPlain = path.startsWith('/') && posix.normalize(path) === path
  if (!isPlain || /[:,\p{Cc}]/u.test(path) || IMAGE_FOLDERS.includes(path)) return OTHER_HOME
  return IMAGE_TREES.some((tree) => path === tree || path.startsWith(`${tree}/`))
    ? OTHER_HOME
    : path
}

/**
 * The file systems in memory that make an account's home a folder of its own, and so every folder between it and one of
 * the targets that are bound inside it: the engine would make those as root. Parents come first; each holds at most
 * `sizeBytes`.
 */
export function homeMounts(
  account: Account,
  targets: readonly string[],
  sizeBytes: number,
): readonly TmpfsMount[] {
  const { uid, gid } = account
  const home = sandboxHome(account.home)
  const folders = new Set([home])
  for (const target of targets) {
    for (let folder = posix.dirname(target); isInside(home, folder);) {
      if (!targets.some((other) => other === folder || isInside(other, folder))) folders.add(folder)
      folder = posix.dirname(folder)
    }
  }
  // Executable: an agent installs programs below its home.
  return [...folders]
    .toSorted()
    .map((target) => ({ target, mode: '0700', owner: { uid, gid }, sizeBytes, executable: true }))
}

function isInside(folder: string, path: string): boolean {
  return path.startsWith(`${folder}/`)
}
