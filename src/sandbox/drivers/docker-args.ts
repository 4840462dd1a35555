import { posix } from 'node:path'
import type { RuntimeName } from '../../door/container-runtime.ts'
import type { ContainerSpec, ExecSpec, TmpfsMount } from '../driver.ts'
import { csvField, mountArg } from '../mounts.ts'
import { DIFFERENCES, type RuntimeDifferences } from './differences.ts'
import { PASSED } from './find-runtime.ts'

/**
 * What root inside a sandbox may do, so that package managers work there: give files away, step over permissions, take
 * another user, end processes, listen on low ports, change the root folder. Everything else is dropped: raw sockets,
 * device files, file capabilities, the audit log.
 */
export const CAPABILITIES: readonly string[] = [
  'CHOWN',
  'DAC_OVERRIDE',
  'FOWNER',
  'FSETID',
  'KILL',
  'NET_BIND_SERVICE',
  'SETGID',
  'SETUID',
  'SYS_CHROOT',
]

/** What the command line of docker may hand to a container from its `config.json`, in both spellings. */
const PROXY_VARIABLES = ['HTTP_PROXY', 'HTTPS_PROXY', 'FTP_PROXY', 'ALL_PROXY', 'NO_PROXY'].flatMap(
  (name) => [name, name.toLowerCase()],
)

/** The arguments of `run` for a container, each with its reason. */
export function runArgs(spec: ContainerSpec, runtime: RuntimeName): string[] {
  const differences = DIFFERENCES[runtime]
  return [
    'run',
    // The first process is `cat` on a pipe that this program holds: when this program ends, it ends.
    '-i',
    `--entrypoint=${differences.hasInit ? 'cat' : '/bin/sh'}`,
    // Ended is removed, with its anonymous volumes.
    '--rm',
    // Collects orphans, so that a long run does not fill its process table.
    ...(differences.hasInit ? ['--init'] : []),
    // A health check is a program of the image: it would run beside the node, unasked.
    '--no-healthcheck',
    // What was inspected is here; nothing else may come instead.
    '--pull=never',
    // The first process only echoes: nothing of it is kept on disk.
    '--log-driver=none',
    `--name=${spec.name}`,
    `--cidfile=${spec.idFile}`,
    ...Object.entries(spec.labels).map(([name, value]) => `--label=${name}=${value}`),
    `--network=${spec.network}`,
    // The name that its /etc/hosts has.
    ...(spec.hostname === undefined ? [] : [`--hostname=${spec.hostname}`]),
    // Shared memory of its own, not of another container or the host.
    '--ipc=private',
    '--cap-drop=ALL',
    ...capabilitiesFor(spec, differences).map((name) => `--cap-add=${name}`),
    // A set-uid program of the image gives nobody more than they have.
    '--security-opt=no-new-privileges',
    // What the kernel does for it: no socket but those of its own network, no ring past the filter, no namespaces.
    `--security-opt=seccomp=${spec.seccompFile}`,
    // A fork bomb ends in its own container.
    ...(spec.pidsLimit > 0 ? [`--pids-limit=${spec.pidsLimit}`] : []),
    // So does a program that eats memory.
    ...(spec.memoryBytes > 0 ? [`--memory=${spec.memoryBytes}`] : []),
    ...(differences.copiesProxyVariables ? ['--http-proxy=false'] : []),
    // A name without a value takes the variable away: its value may hold a password.
    ...(differences.copiesConfiguredProxies ? PROXY_VARIABLES.map((name) => `--env=${name}`) : []),
    // What the image may not say.
    ...spec.unsetEnv.map((name) => takeAway(name, differences)),
    ...(differences.opensLowPorts || spec.network !== 'none'
      ? []
      : ['--sysctl=net.ipv4.ip_unprivileged_port_start=0']),
    ...(spec.user === '' ? [] : [`--user=${spec.user}`]),
    `--workdir=${spec.workdir}`,
    ...spec.tmpfs.map((one) => `--tmpfs=${tmpfsArg(one, differences)}`),
    ...spec.mounts.map((one) => `--mount=${mountArg(one)}`),
    ...spec.engineArgs,
    ...volumeArgs(spec, differences),
    spec.image,
    // A shell that waits for `cat` collects orphans as well.
    ...(differences.hasInit ? ['-'] : ['-c', 'cat -; exit']),
  ]
}

/** Where programs are found if nobody says otherwise: what engines take themselves. */
const DEFAULT_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** A variable that the engine's command line has itself would be handed over by its name. */
function takeAway(name: string, { takesAway }: RuntimeDifferences): string {
  if (name === 'PATH') return `--env=${name}=${DEFAULT_PATH}`
  return takesAway === '--env' && PASSED.test(name) ? `--env=${name}=` : `${takesAway}=${name}`
}

/** Where a user who is not root would hold what is meant for root, a container of such a user has none of it. */
function capabilitiesFor({ user }: ContainerSpec, { arms }: RuntimeDifferences): readonly string[] {
  return arms === 'root' || /^(?:0|root)(?::|$)/.test(user) ? CAPABILITIES : []
}

/** The arguments of `exec`. */
export function execArgs(spec: ExecSpec): string[] {
  return [
    'exec',
    ...(spec.interactive ? ['-i'] : []),
    ...(spec.tty ? ['-t'] : []),
    ...(spec.user === '' ? [] : [`--user=${spec.user}`]),
    `--workdir=${spec.workdir}`,
    ...(spec.envFile === undefined ? [] : [`--env-file=${spec.envFile}`]),
    spec.container,
    ...spec.command,
  ]
}

function tmpfsArg(
  { target, mode, owner, sizeBytes, executable }: TmpfsMount,
  { tmpfsOwner, fillsTmpfs }: RuntimeDifferences,
): string {
  const options = ['rw', 'nosuid', 'nodev', executable ? 'exec' : 'noexec', `mode=${mode}`]
  if (owner && tmpfsOwner === 'numbers') options.push(`uid=${owner.uid}`, `gid=${owner.gid}`)
  // The container's own user, who is the one owner that a sandbox has.
  if (owner && tmpfsOwner === 'user') options.push('U')
  if (fillsTmpfs) options.push('notmpcopyup')
  return `${target}:${[...options, `size=${sizeBytes}`].join(',')}`
}

/**
 * The image's volumes, with the labels of the container: an engine that starts after a crash removes the container and
 * may forget its volumes, and without labels nobody would know whose they are.
 */
function volumeArgs(
  { labels, mounts, tmpfs, volumes, imageVolumes }: ContainerSpec,
  { canCrash }: RuntimeDifferences,
): string[] {
  const asked = volumes.map(({ target }) => target)
  const folders = [...new Set([...(canCrash ? imageVolumes : []), ...asked])]
  const isTaken = new Set([...mounts, ...tmpfs].map(({ target }) => posix.normalize(target)))
  const said = Object.entries(canCrash ? labels : {}).map(
    ([name, value]) => `volume-label=${name}=${value}`,
  )
  return folders
    .filter((folder) => folder.startsWith('/') && !/\p{Cc}/u.test(folder))
    .map((folder) => posix.join(folder, '.'))
    .filter((folder) => folder !== '/' && !isTaken.has(folder))
    .map((folder) => ['type=volume', `target=${folder}`, ...said].map(csvField).join(','))
    .map((mount) => `--mount=${mount}`)
}
