import type { ChildProcess } from 'node:child_process'
import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { type ContainerRuntime, runtimeCommand } from '../../door/container-runtime.ts'
import { signalGroup } from '../../door/spawn.ts'
import { EgressError } from '../../errors.ts'
import { parseIpv4 } from '../../policy/address.ts'
import type { ContainerSpec, Driver, RunningContainer } from '../driver.ts'
import type { EngineRemains } from '../orphans.ts'
import { DIFFERENCES } from './differences.ts'
import { execArgs, runArgs } from './docker-args.ts'

/** How long the first process may take to end once its pipe is closed, in milliseconds. */
const STOP_GRACE_MS = 3_000
/** The bound of a command that only asks the engine something, in milliseconds. */
const ASK_TIMEOUT_MS = 10_000
/** The bound of a removal, in milliseconds. */
const REMOVE_TIMEOUT_MS = 8_000
/** The bound of looking at what is there, in milliseconds. */
const LIST_TIMEOUT_MS = 4_000
/** How long an engine may be silent before nothing more is waited for, in milliseconds. */
const SILENCE_MS = 2_500
/** How long somebody else may take for a removal that failed here, in milliseconds. */
const OTHERS_MS = 2_000
/** How often it is looked at whether a removal that somebody else began is done, in milliseconds. */
const LOOK_MS = 200

/** What is asked about an image: its id, its user, the folders that are volumes, its environment. */
const IMAGE_FORMAT = '{{.Id}} {{json .Config.User}}, {{json .Config.Volumes}}, {{json .Config.Env}}'
type ImageConfig = [user: string, volumes: object | null, env: string[] | null]

const UNREACHABLE =
  /cannot connect to the docker daemon|is the docker daemon running|permission denied while trying to connect|error during connect|dial unix|unable to connect to podman/i
const NO_SUCH_IMAGE = /no such image|image not known/i
const NO_SUCH_VOLUME = /no such volume/i
const NO_SUCH_CONTAINER = /no such container|no container with (?:name or )?id/i
/** `--rm` got there first. */
const IN_PROGRESS = /removal of container .* is already in progress/i

/** A driver over the command line of docker or podman. */
export function createDockerDriver(runtime: ContainerRuntime): Driver & EngineRemains {
  const command = (args: readonly string[], options: Parameters<typeof runtimeCommand>[2] = {}) =>
    runtimeCommand(runtime, args, { timeoutMs: ASK_TIMEOUT_MS, ...options })

  /** The command lines that stand for a program in a container. */
  const clients = new Set<ChildProcess>()

  /** The ids and names of containers. */
  const list = async (filter: readonly string[], timeoutMs: number): Promise<string[][]> => {
    const args = ['ps', '-a', '--no-trunc', ...filter, '--format', '{{.ID}} {{.Names}}']
    const { code, stdout, stderr } = await command(args, { timeoutMs })
    if (code !== 0) throw engineError(runtime, stderr)
    const lines = stdout.split('\n').filter((line) => line !== '')
    return lines.map((line) => line.split(' '))
  }

  /** Ends when the engine was silent for a while. */
  const silence = (end: AbortSignal): AbortSignal => {
    const silent = new AbortController()
    const ping = command(['version', '--format', '{{.Client.Version}}'], {
      signal: end,
      timeoutMs: SILENCE_MS,
    })
    const give = () => silent.abort()
    ping.then(({ stopped }) => stopped && give(), give)
    return silent.signal
  }

  const remove: Driver['remove'] = async (containers, timeoutMs) => {
    if (containers.length === 0) return []
    const deadline = AbortSignal.timeout(timeoutMs)
    const over = new AbortController()
    const signal = AbortSignal.any([deadline, silence(over.signal)])
    const args = ['rm', '-f', '-v', ...DIFFERENCES[runtime.name].killing, ...containers]
    const { code, stderr, stopped } = await command(args, { signal })
    over.abort()
    if (code === 0) return []
    if (stopped) return containers
    const complaints = stderr.split('\n').filter((line) => line !== '')
    const isOnItsWay = complaints.every(
      (one) => NO_SUCH_CONTAINER.test(one) || IN_PROGRESS.test(one),
    )
    if (isOnItsWay && !complaints.some((one) => IN_PROGRESS.test(one))) return []
    // Whoever removes it at the same moment makes an engine say all kinds of things.
    const patience = isOnItsWay
      ? deadline
      : AbortSignal.any([deadline, AbortSignal.timeout(OTHERS_MS)])
    for (;;) {
      const known = await list([], SILENCE_MS).catch(() => undefined)
      if (known === undefined) return containers
      const left = containers.filter((one) => known.some((names) => names.includes(one)))
      if (left.length === 0 || patience.aborted) return left
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
    }
  }

  return {
    async inspectImage(image, signal) {
      const { code, stdout, stderr } = await command(
        ['image', 'inspect', '--format', IMAGE_FORMAT, image],
        { signal },
      )
      if (code === 0) {
        const space = stdout.indexOf(' ')
        const id = stdout.slice(0, space)
        const [user, volumes, env] = JSON.parse(`[${stdout.slice(space)}]`) as ImageConfig
        return { id, user, env: variablesOf(env ?? []), volumes: Object.keys(volumes ?? {}) }
      }
      if (NO_SUCH_IMAGE.test(stderr)) return undefined
      throw engineError(runtime, stderr)
    },

    async pullImage(image, signal) {
      // Its bound is that of its phase.
      const { code, stderr } = await runtimeCommand(runtime, ['pull', '--quiet', image], { signal })
      if (code === 0) return
      if (UNREACHABLE.test(stderr)) throw engineError(runtime, stderr)
      throw new EgressError(
        'SANDBOX_IMAGE_UNAVAILABLE',
        `the image ${image} is not here and cannot be pulled; name one that is (image of sandbox:, --image, --sandbox-default-image): ${lastLine(stderr)}`,
      )
    },

    start: (spec, signal) => {
      const args = runArgs(spec, runtime.name)
      return startContainer(runtime, spec, args, signal, async (containers, timeoutMs) => {
        const left = await remove(containers, timeoutMs)
        // The engine does not answer, so they would wait as long as it is silent.
        if (left.length > 0) for (const client of clients) signalGroup(client, 'SIGKILL')
        return left
      })
    },

    exec(spec, stdio) {
      const client = runtime.spawn(runtime.program, [...runtime.globalArgs, ...execArgs(spec)], {
        env: runtime.env,
        stdio,
        // Ctrl-C on the terminal is ours to pass on: the command line of `exec` would just end.
        detached: true,
      })
      clients.add(client)
      client.once('close', () => clients.delete(client))
      return client
    },

    run: (spec, options) => runtimeCommand(runtime, execArgs(spec), options),

    // Of the container, not of its network: some engines tell of the default network only what somebody configured.
    async bridgeGateway(container, signal) {
      const format = '{{range .NetworkSettings.Networks}}{{.Gateway}}{{end}}'
      const args = ['inspect', '--type', 'container', '--format', format, container]
      const { code, stdout, stderr } = await command(args, { signal })
      if (code !== 0) throw engineError(runtime, stderr)
      const gateway = stdout.trim()
      if (parseIpv4(gateway) !== undefined) return gateway
      throw new EgressError('SANDBOX_SETUP_FAILED', 'the container is on no bridge of this machine')
    },

    remove,

    hasProcess,

    async removeVolumes(label, isOrphan) {
      const filter = ['--filter', `label=${label}`, '--filter', 'dangling=true']
      const listed = await command(['volume', 'ls', '--quiet', ...filter], {
        timeoutMs: LIST_TIMEOUT_MS,
      })
      if (listed.code !== 0) throw engineError(runtime, listed.stderr)
      const names = listed.stdout.split('\n').filter((line) => line !== '')
      if (names.length === 0) return []
      const args = ['volume', 'inspect', '--format', '{{.Name}} {{json .Labels}}', ...names]
      const { stdout } = await command(args, { timeoutMs: LIST_TIMEOUT_MS })
      const orphans = labelled(stdout).filter(({ labels }) => isOrphan(labels))
      const left: string[] = []
      for (const { id } of orphans) {
        const { code, stderr } = await command(['volume', 'rm', id])
        if (code !== 0 && !NO_SUCH_VOLUME.test(stderr)) left.push(id)
      }
      return left
    },

    async list(label, except) {
      const all = await list(['--filter', `label=${label}`], LIST_TIMEOUT_MS)
      // Labels may come from an image; a name is given by whoever started it.
      const found = all.filter(([, name]) => name !== except && name?.startsWith('iterion-'))
      if (found.length === 0) return []
      const ids = found.map(([id = '']) => id)
      const format = '{{.Id}} {{json .Config.Labels}}'
      const args = ['inspect', '--type', 'container', '--format', format, ...ids]
      const { stdout, stderr, stopped } = await command(args, { timeoutMs: LIST_TIMEOUT_MS })
      // One that is gone by now is no failure.
      if (stopped || UNREACHABLE.test(stderr)) throw engineError(runtime, stderr)
      return labelled(stdout)
    },
  }
}

/** The environment of an image, which is a list of `NAME=VALUE`. */
function variablesOf(lines: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    lines.map((line): [string, string] => {
      const [name = '', ...value] = line.split('=')
      return [name, value.join('=')]
    }),
  )
}

/** True if a process of a container is there, whatever the engine says: its control group is named for the container. */
function hasProcess(container: string): boolean {
  if (!/^[\da-f]+$/.test(container)) return false
  const group = new RegExp(`(?:/|docker-|libpod-)${container}(?:\\.scope)?(?:/|$)`, 'm')
  return readdirSync('/proc').some((pid) => {
    try {
      return /^\d+$/.test(pid) && group.test(readFileSync(`/proc/${pid}/cgroup`, 'utf8'))
    } catch {
      // It has ended.
      return false
    }
  })
}

/** Reads lines of an id and labels. */
function labelled(text: string): { id: string; labels: Record<string, string> }[] {
  return text.split('\n').flatMap((line) => {
    const space = line.indexOf(' ')
    if (space === -1) return []
    const labels = JSON.parse(line.slice(space + 1)) as Record<string, string> | null
    return [{ id: line.slice(0, space), labels: labels ?? {} }]
  })
}

/** Starts the container, and knows that it runs when its first process gives back what it was told. */
async function startContainer(
  runtime: ContainerRuntime,
  spec: ContainerSpec,
  args: readonly string[],
  signal: AbortSignal,
  remove: Driver['remove'],
): Promise<RunningContainer> {
  const { randomWord } = await import('../random-word.ts')
  const child = runtime.spawn(runtime.program, [...runtime.globalArgs, ...args], {
    env: runtime.env,
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
  })
  const complaints: string[] = []
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    complaints.push(text)
    if (complaints.length > 64) complaints.shift()
  })
  child.stdin?.on('error', () => undefined)
  const ended = new Promise<void>((resolve) => {
    child.once('error', () => resolve())
    child.once('close', () => resolve())
  })
  let stopping: Promise<readonly string[]> | undefined
  const stop = () => {
    stopping ??= (async () => {
      child.stdin?.destroy()
      const timer = setTimeout(() => signalGroup(child, 'SIGKILL'), STOP_GRACE_MS)
      await ended
      clearTimeout(timer)
      // Usually gone by itself. By its name: a start that was cut short may have no id yet.
      return child.exitCode === 0 ? [] : remove([spec.name], REMOVE_TIMEOUT_MS)
    })()
    return stopping
  }
  const word = `${randomWord()}\n`
  const answered = new Promise<boolean>((resolve) => {
    let heard = ''
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      if (heard.length < word.length) heard += text
      if (heard === word) resolve(true)
    })
    void ended.then(() => resolve(false))
    signal.addEventListener('abort', () => resolve(false), { once: true })
    if (signal.aborted) resolve(false)
  })
  child.stdin?.write(word)
  if (await answered) {
    const id = readFileSync(spec.idFile, 'utf8').trim()
    rmSync(spec.idFile, { force: true })
    return { id, ended, stop }
  }
  await stop()
  rmSync(spec.idFile, { force: true })
  signal.throwIfAborted()
  throw startError(runtime, complaints.join(''))
}

function startError(runtime: ContainerRuntime, stderr: string): EgressError {
  if (UNREACHABLE.test(stderr)) return engineError(runtime, stderr)
  const text = lastLine(stderr)
  if (/"?cat"?: executable file not found|exec: \\?"cat\\?"/.test(stderr)) {
    return new EgressError(
      'SANDBOX_SETUP_FAILED',
      `the image has no program "cat", which the sandbox lives on: ${text}`,
    )
  }
  if (/bind source path does not exist|invalid mount config/.test(stderr)) {
    return new EgressError(
      'SANDBOX_ENGINE_UNREACHABLE',
      `the engine does not see the folders of this machine; a remote engine cannot bind-mount the workspace: ${text}`,
    )
  }
  return new EgressError('SANDBOX_SETUP_FAILED', `the container cannot be started: ${text}`)
}

function engineError({ name }: ContainerRuntime, stderr: string): EgressError {
  if (/permission denied/i.test(stderr)) {
    return new EgressError(
      'SANDBOX_ENGINE_UNREACHABLE',
      `this user may not talk to the ${name} engine: join its group (docker), or run as root: ${lastLine(stderr)}`,
    )
  }
  return new EgressError(
    'SANDBOX_ENGINE_UNREACHABLE',
    `the ${name} engine does not answer: ${lastLine(stderr) || 'no answer in time'}`,
  )
}

function lastLine(text: string): string {
  return (
    text
      .split('\n')
      .findLast((line) => line.trim() !== '' && !/^(?:See|Run) '.*--help'/.test(line))
      ?.trim()
      .slice(0, 500) ?? ''
  )
}
