import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import path from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { Crash, Engine } from './engine.ts'

/** Where an engine keeps something for each container. */
const PLACES = [
  'data/containers',
  'data/volumes',
  'data/overlay2',
  'data/overlay2/l',
  'data/image/overlay2/layerdb/mounts',
  'exec/containerd/daemon/io.containerd.runtime.v2.task/moby',
  'exec/runtime-runc/moby',
]

/** Everything that an engine has, and that this machine has of it. */
export async function lookAt(engine: Engine): Promise<Record<string, readonly string[]>> {
  const linesOf = async (...args: readonly string[]) =>
    (await engine.docker(...args)).split('\n').filter((line) => line !== '')
  const entries = PLACES.map((place) => [place, namesIn(path.join(engine.folder, place))] as const)
  const devices = spawnSync('nsenter', [`--net=${engine.network}`, 'cat', '/proc/net/dev'])
  return {
    ...Object.fromEntries(entries),
    containers: await linesOf('ps', '-aq', '--no-trunc'),
    volumes: await linesOf('volume', 'ls', '-q'),
    // The bridge is made anew at every start.
    networks: await linesOf('network', 'ls', '--format', '{{.Name}}'),
    devices: devices.stdout.toString().match(/^ *\w+(?=:)/gm) ?? [],
    mounts: mountInfo().flatMap((line) => {
      const place = line.split(' ')[4] ?? ''
      return place.startsWith(engine.folder) ? [place] : []
    }),
  }
}

/** The same, once it is what is expected, or a while later: the kernel takes devices away in its own time. */
export async function lookUntil(
  engine: Engine,
  expected: Awaited<ReturnType<typeof lookAt>>,
): ReturnType<typeof lookAt> {
  let seen = await lookAt(engine)
  for (let tries = 0; tries < 50 && !isDeepStrictEqual(seen, expected); tries++) {
    await pause()
    seen = await lookAt(engine)
  }
  return seen
}

/** What this machine knows of a container, however the engine stands. */
export interface Traces {
  readonly container: string
  readonly address: string
  /** Its own namespaces: `net:[4026532281]`. */
  readonly namespaces: readonly string[]
  readonly shimSockets: readonly string[]
}

/** Looks at a container that runs; `crash` is what it is going to meet. */
export async function tracesOf(
  engine: Engine,
  container: string | null,
  crash: Crash,
): Promise<Traces> {
  if (container === null) throw new Error('the run has no container')
  const pid = await engine.docker('inspect', '-f', '{{.State.Pid}}', container)
  const ours = namespacesOf('self')
  return {
    container,
    address: engine.address,
    namespaces: namespacesOf(pid).filter((one) => !ours.includes(one)),
    // A shim that is killed leaves it, and no engine takes it away.
    shimSockets: crash === 'engine' ? engine.shimSockets() : [],
  }
}

/**
 * What stays of a container: processes, namespaces, mounts, control groups, the socket of its shim. What lost its parent is
 * collected by the first process of this machine, a moment later.
 */
export async function settled(traces: Traces): Promise<string[]> {
  let left = await remaining(traces)
  for (let tries = 0; tries < 50 && left.length > 0; tries++) {
    await pause()
    left = await remaining(traces)
  }
  return left
}

/** What is there of a container now. */
export async function remaining({
  container,
  address,
  namespaces,
  shimSockets,
}: Traces): Promise<string[]> {
  const processes = namesIn('/proc').filter((name) => /^\d+$/.test(name))
  const groups = spawnSync('find', ['/sys/fs/cgroup', '-type', 'd', '-name', `*${container}*`])
  return [
    ...processes.flatMap((pid) => {
      const text = ['cmdline', 'cgroup', 'environ'].map((file) => textOf(`/proc/${pid}/${file}`))
      const isOf = text.some((one) => one.includes(container) || one.includes(address))
      // The engine itself is there again.
      return isOf && !/^(?:dockerd|containerd)\0/.test(text[0] ?? '') ? [`process ${text[0]}`] : []
    }),
    ...processes.flatMap((pid) => namespacesOf(pid)).filter((one) => namespaces.includes(one)),
    ...mountInfo().filter((line) => [container, ...namespaces].some((one) => line.includes(one))),
    ...groups.stdout
      .toString()
      .split('\n')
      .filter((line) => line !== ''),
    ...shimSockets.filter((file) => existsSync(file)),
  ]
}

function namespacesOf(pid: string): string[] {
  return namesIn(`/proc/${pid}/ns`).flatMap((name) => {
    try {
      return [readlinkSync(`/proc/${pid}/ns/${name}`)]
    } catch {
      return []
    }
  })
}

function mountInfo(): string[] {
  return readFileSync('/proc/self/mountinfo', 'utf8').split('\n')
}

/** What is gone by now is empty. */
function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'latin1')
  } catch {
    return ''
  }
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 100))
}
