import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import type { Test } from 'tap'
import { type ContainerRuntime, runtimeCommand } from '../../src/door/container-runtime.ts'
import { shortFolder, TEST_IMAGE, testRuntime } from './docker.ts'

/** What a crash takes: the engine with its own containerd, or also the shims, which else outlive it. */
export type Crash = 'engine' | 'engine, containerd and shims'

/** A docker engine of a test's own, which may be stopped, killed and started again. */
export interface Engine {
  /** For `DOCKER_HOST`. */
  readonly address: string
  readonly pid: number
  /** Everything that it keeps. */
  readonly folder: string
  /** The file that holds its network, for `nsenter`. */
  readonly network: string
  /** Runs a docker command on it and gives what it printed. */
  docker(...args: readonly string[]): Promise<string>
  /** The containers that it has. */
  containers(): Promise<string[]>
  /** The sockets of the shims of its containers, in a folder of all engines of this machine. */
  shimSockets(): string[]
  /** A folder with a `docker` that stops or kills the engine before the first call with these two words, for PATH. */
  metBy(signal: 'STOP' | 'KILL', words: string): string
  /** Lets a stopped engine go on. */
  goOn(): void
  /** Kills it, as a crash would. What it takes with it has ended when this resolves. */
  crash(what?: Crash): Promise<void>
  /** Starts it again on what it kept. */
  start(): Promise<void>
}

/** How often it is asked whether an engine answers, or whether a process has ended, in milliseconds. */
const STEP_MS = 100

/**
 * Starts an engine that has {@link TEST_IMAGE}; it touches no network of this machine, and goes with the test. Its network
 * is one of its own, which outlives it as that of a machine does: a bridge that a crash left is there at the next start.
 */
export async function startEngine(t: Test): Promise<Engine> {
  const folder = shortFolder(t)
  const socket = path.join(folder, 's')
  const address = `unix://${socket}`
  const network = path.join(folder, 'net')
  const logFile = path.join(folder, 'log')
  const pidFiles = [path.join(folder, 'pid'), path.join(folder, 'exec/containerd/containerd.pid')]
  const args = ['--data-root', path.join(folder, 'data'), '--exec-root', path.join(folder, 'exec')]
  args.push('--pidfile', path.join(folder, 'pid'), '-H', address, '--iptables=false')
  args.push('--ip-forward=false', '--ip-masq=false', '--live-restore=false', '--shutdown-timeout=1')
  const runtime: ContainerRuntime = {
    ...testRuntime(),
    env: { ...testRuntime().env, DOCKER_HOST: address },
  }
  const tasks = path.join(folder, 'exec/containerd/daemon/io.containerd.runtime.v2.task/moby')
  const shimSockets = () =>
    (existsSync(tasks) ? readdirSync(tasks) : []).map((container) =>
      readFileSync(path.join(tasks, container, 'address'), 'utf8').replace('unix://', ''),
    )
  /** What shims that were killed leave. */
  const leftSockets: string[] = []
  let daemon: ChildProcess
  const docker: Engine['docker'] = async (...words) => {
    const { code, stdout, stderr } = await runtimeCommand(runtime, words)
    if (code !== 0) throw new Error(`docker ${words.join(' ')}: ${stderr}`)
    return stdout.replace(/\n$/, '')
  }
  const hasEnded = () => daemon.exitCode !== null || daemon.signalCode !== null
  const ended = () =>
    new Promise<void>((resolve) => {
      if (hasEnded()) resolve()
      else daemon.once('exit', () => resolve())
    })
  const start = async () => {
    // An engine refuses to start, or waits for a containerd that is not there, while the number in such a file is that of
    // a process: one that was killed and not waited for yet, or another one by now.
    for (const file of pidFiles) rmSync(file, { force: true })
    const log = openSync(logFile, 'a')
    // In a network of its own: two engines in one take each other's bridge away.
    daemon = spawn('nsenter', [`--net=${network}`, 'dockerd', ...args], {
      stdio: ['ignore', log, log],
      env: { PATH: process.env['PATH'] },
    })
    closeSync(log)
    for (let tries = 0; tries < 300 && !hasEnded(); tries++) {
      const { code } = await runtimeCommand(runtime, ['info', '--format', '{{.ID}}'])
      if (code === 0) return
      await pause()
    }
    throw new Error(`the engine does not start: ${readFileSync(logFile, 'utf8').slice(-2_000)}`)
  }
  const crash: Engine['crash'] = async (what = 'engine') => {
    leftSockets.push(...shimSockets())
    const taken = processesWith(folder).filter(
      (pid) => what !== 'engine' || !commandLine(pid).includes('shim'),
    )
    if (what !== 'engine') for (const pid of taken) kill(pid)
    daemon.kill('SIGKILL')
    await ended()
    // Its containerd ends with it, a moment later.
    for (let tries = 0; tries < 50 && taken.some((pid) => existsSync(`/proc/${pid}`)); tries++) {
      await pause()
    }
  }
  t.teardown(async () => {
    daemon.kill('SIGCONT')
    daemon.kill('SIGTERM')
    await ended()
    // A crash leaves its programs, sockets and mounts behind.
    leftSockets.push(...shimSockets())
    for (const pid of processesWith(folder)) kill(pid)
    for (const left of leftSockets) rmSync(left, { force: true })
    const mounts = readFileSync('/proc/mounts', 'utf8').split('\n')
    for (const line of mounts.toReversed()) {
      const place = line.split(' ')[1] ?? ''
      if (place.startsWith(folder)) spawnSync('umount', ['-l', place])
    }
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  })
  writeFileSync(network, '')
  const made = spawnSync('unshare', [`--net=${network}`, 'true'])
  if (made.status !== 0) throw new Error(made.stderr.toString())
  await start()
  const load = spawnSync('sh', [
    '-c',
    'docker save "$1" | docker -H "$2" load',
    'sh',
    TEST_IMAGE,
    address,
  ])
  if (load.status !== 0) throw new Error(load.stderr.toString())
  return {
    address,
    get pid() {
      return daemon.pid ?? 0
    },
    folder,
    network,
    docker,
    shimSockets,
    containers: async () =>
      (await docker('ps', '-aq', '--no-trunc')).split('\n').filter((line) => line !== ''),
    metBy(signal, words) {
      const bin = path.join(folder, 'bin')
      mkdirSync(bin, { recursive: true })
      const file = path.join(bin, 'docker')
      const real = spawnSync('sh', ['-c', 'command -v docker']).stdout.toString().trim()
      const meet = `[ "$1 $2" = "${words}" ] && [ ! -e ${bin}/done ] && touch ${bin}/done && kill -${signal} ${daemon.pid}`
      rmSync(path.join(bin, 'done'), { force: true })
      writeFileSync(file, `#!/bin/sh\n${meet}\nexec ${real} "$@"\n`)
      chmodSync(file, 0o755)
      return bin
    },
    goOn: () => void daemon.kill('SIGCONT'),
    crash,
    start,
  }
}

/** The processes in whose arguments a text is. */
function processesWith(text: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && commandLine(Number(name)).includes(text))
    .map(Number)
}

function commandLine(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1')
  } catch {
    return ''
  }
}

/** It may have ended meanwhile. */
function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, STEP_MS))
}
