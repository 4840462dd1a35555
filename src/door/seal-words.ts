import { unpackingLines } from './carried-variables.ts'
import { EMPTY_FILE, type SealPlaces, SEAL_FOLDER } from './seal-places.ts'
import { escapeBytes } from './seal-sockets.ts'

/** An account of this machine. */
export interface SealAccount {
  readonly uid: number
  readonly gid: number
  /** Its name; undefined: it is a number alone, and in no group but its own. */
  readonly name: string | undefined
}

/** A program with its arguments. */
export type Words = readonly [string, ...string[]]

/** A command that is to be sealed. */
export interface SealedCommand {
  /** The command with its arguments. */
  readonly words: readonly string[]
  /** Its whole environment. */
  readonly env: Readonly<Partial<Record<string, string>>>
  /** The folder that it works in. */
  readonly directory: string
  /** True if it reads from a terminal. */
  readonly isAtTerminal: boolean
}

/**
 * The environment of every program that makes a seal. Nothing of the caller's runs in it, and none of the caller's folders is
 * looked into: a sealed command before may have written there.
 */
export const SEAL_ENV = {
  PATH: '/usr/sbin:/usr/bin:/sbin:/bin:/run/current-system/sw/bin',
  LC_ALL: 'C',
} as const
const SEAL_VARIABLES = Object.keys(SEAL_ENV)

/** Who a sealed command runs as. */
export interface SealUser {
  /** Who calls. */
  readonly caller: { readonly uid: number; readonly gid: number }
  /** Who the command is; undefined: the caller. Only root can name somebody else. */
  readonly account: SealAccount | undefined
}

/**
 * Makes the outer namespaces what they have to be. Whatever fails ends it. It says when the door can be opened, which is done
 * beside the rest, and when all is covered that the command must not see. When it is told that the door is open, it makes its
 * folder one that nobody can write, here and in the namespaces that have a copy of the mount.
 *
 * Nothing of it lies on a disk: the first folder that is covered holds the files that are bound elsewhere.
 */
const SET_UP = `
set -e
fail() { echo "$1" >&2; exit 1; }
command -v ip >/dev/null || fail "ip: not found"
ip link set lo up
echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start
run=$1
mount -t tmpfs -o mode=755,nosuid,nodev,noexec none "$run"
echo lo
mkdir "${SEAL_FOLDER}"
: > "${EMPTY_FILE}"
read -r host < /proc/sys/kernel/hostname
printf 'nameserver %s\\noptions ndots:1\\n' "$5" > "${SEAL_FOLDER}/resolv.conf"
printf '127.0.0.1 localhost\\n::1 localhost ip6-localhost ip6-loopback\\n127.0.0.1 %s\\n' "$host" > "${SEAL_FOLDER}/hosts"
for what in passwd group shadow gshadow networks protocols services ethers rpc netgroup; do
  echo "$what: files"
done > "${SEAL_FOLDER}/nsswitch.conf"
echo 'hosts: files dns' >> "${SEAL_FOLDER}/nsswitch.conf"
bind() {
  [ -n "$2" ] || return 0
  case $2 in "$run"/*) mkdir -p "\${2%/*}"; [ -e "$2" ] || : > "$2";; esac
  mount --bind "${SEAL_FOLDER}/$1" "$2"
}
bind resolv.conf "$2"
bind nsswitch.conf "$3"
bind hosts "$4"
shift 5
empty=ro,mode=755,nosuid,nodev,noexec
for place; do
  kind=\${place%%:*} place=\${place#*:}
  case $kind in
    folder) mount -t tmpfs -o "$empty" none "$place"; continue;;
  esac
  place=$(printf '%b_' "$place") place=\${place%_}
  # It was found a moment ago. What is gone by now is nothing to cover.
  [ -e "$place" ] || continue
  case $kind in
    blind) mount -t tmpfs -o "$empty" none "$place" || [ ! -e "$place" ];;
    socket) mount --bind "${EMPTY_FILE}" "$place" || [ ! -e "$place" ];;
  esac
done
echo covered
read -r _
mount -o remount,ro,nosuid,nodev,noexec none "$run"
`

/** For a shell that waits for another: what a terminal sends to all in front of it is for that one to judge. */
const IGNORE = 'trap : HUP INT QUIT TERM'

/** Waits for the first process of the command's process namespace, which ends with it. */
const GUARD = `${IGNORE}; setpriv --pdeathsig KILL -- "$@"; exit $?`

/**
 * The first process of that namespace: collects what others left behind, and takes everything with it when it ends. Where
 * /proc cannot be mounted anew (in a container that hides some of it) the old one stays: it is as closed as before.
 */
const INIT = `${IGNORE}; mount -t proc none /proc 2>/dev/null; "$@"; exit $?`

/**
 * The last word before the command, which has nothing to raise itself by. It waits until it is told that the door is
 * proven.
 */
const MARK = `
while read -r _iterion_name _iterion_value _iterion_rest; do
  case $_iterion_name$_iterion_value in
    CapInh:0000000000000000|CapPrm:0000000000000000|CapEff:0000000000000000|CapAmb:0000000000000000) ;;
    NoNewPrivs:1) ;;
    CapInh:*|CapPrm:*|CapEff:*|CapAmb:*|NoNewPrivs:*)
      echo "the command would have $_iterion_name $_iterion_value" >&2
      exit 1;;
  esac
done < /proc/self/status
echo ready >&4
read -r _iterion_name <&4 || exit 1
unset _iterion_name _iterion_value _iterion_rest
echo started >&4
`
const BECOME = `
exec "$@" 2>&3 3>&- 4>&-
`

/**
 * The command line that makes the outer namespaces and becomes the helper there. It ends with who starts it, also if it is
 * stopped then.
 *
 * Root needs no user namespace for it; everybody else is root in one of their own, which alone may raise `lo` and mount.
 *
 * @param helper the command line of the helper
 */
export function outerWords({ caller }: SealUser, helper: readonly string[]): Words {
  const own = caller.uid === 0 ? [] : ['--user', '--map-root-user']
  return ['unshare', ...own, '--net', '--mount', '--', ...DIE, ...helper]
}

/**
 * The command line that sets the outer namespaces up, from within them. It prints `lo` when there is one and `covered` when the
 * files are, and waits for a line before its last step.
 *
 * @param stub the address of the resolver
 */
export function setUpWords(places: SealPlaces, stub: string): Words {
  const { run, resolv, nsswitch, hosts, folders, sockets, blind } = places
  const covers = [
    ...folders.map((place) => `folder:${place}`),
    ...sockets.map((place) => `socket:${escapeBytes(place)}`),
    ...blind.map((place) => `blind:${escapeBytes(place)}`),
  ]
  const files = [run, resolv ?? '', nsswitch ?? '', hosts ?? '', stub]
  return ['sh', '-c', SET_UP, 'seal', ...files, ...covers]
}

/**
 * The command line by which a helper starts the command: in a process namespace that ends with the helper, and in a user
 * namespace of its own, where it is who it is outside and may nothing that this user may not.
 *
 * Of its descriptors 2 is for complaints, 3 is the command's standard error and 4 goes both ways: it says `ready` and
 * `started`, and waits for a line between them.
 *
 * @param user who the command is
 */
export function innerWords({ caller, account }: SealUser, sealed: SealedCommand): Words {
  const { words, env, directory, isAtTerminal } = sealed
  const { uid, gid } = account ?? caller
  const leave = ['unshare', '--mount', '--pid', '--ipc', `--wd=${directory}`, '--']
  const first = ['sh', '-c', GUARD, 'guard', 'sh', '-c', INIT, 'init']
  const drop = account === undefined ? [] : dropWords(account)
  const map = ['unshare', '--user', `--map-user=${uid}`, `--map-group=${gid}`, '--']
  const bare = ['setpriv', '--no-new-privs', ...(uid === 0 ? NO_CAPABILITIES : []), '--']
  // A signal to its whole group reaches nobody outside then. At a terminal it has to be in the group in front.
  const group = isAtTerminal ? [] : ['setsid', '--']
  const script = `${MARK}${unpackingLines(SEAL_VARIABLES, env)}${BECOME}`
  const last = ['sh', '-c', script, 'iterion-egress']
  return [...DIE, ...leave, ...first, ...drop, ...map, ...bare, ...group, ...last, ...words]
}

/** Ends a program with the one that starts it. */
const DIE = ['setpriv', '--pdeathsig', 'KILL', '--'] as const

/** Of root alone: everybody else has none left by now. */
const NO_CAPABILITIES = ['--inh-caps=-all', '--ambient-caps=-all', '--bounding-set=-all']

function dropWords({ uid, gid, name }: SealAccount): readonly string[] {
  const groups = name === undefined ? '--clear-groups' : '--init-groups'
  return ['setpriv', `--reuid=${uid}`, `--regid=${gid}`, groups, '--']
}
