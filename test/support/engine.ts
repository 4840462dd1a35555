import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { Test } from 'tap'
import { type ContainerRuntime, runtimeCommand } from '../../src/door/container-runtime.ts'
import { shortFolder, TEST_IMAGE, testRuntime } from './docker.ts'

/** A docker engine of a test's own, which may be stopped and killed. */
export interface Engine {
  /** For `DOCKER_HOST`. */
  readonly address: string
  readonly pid: number
  /** Runs a docker command on it and gives what it printed. */
  docker(...args: readonly string[]): Promise<string>
  /** The containers that it has. */
  containers(): Promise<string[]>
  /** A folder with a `docker` that stops the engine before the first call with these two words, for PATH. */
  stoppedBy(words: string): string
  /** Lets a stopped engine go on. */
  goOn(): void
  /** Kills it, as a crash would. */
  crash(): Promise<void>
}

/** Starts an engine that has {@link TEST_IMAGE}; it touches no network of this machine, and goes with the test. */
export async function startEngine(t: Test): Promise<Engine> {
  const folder = shortFolder(t)
  const socket = path.join(folder, 's')
  const address = `unix://${socket}`
  const args = ['--data-root', path.join(folder, 'data'), '--exec-root', path.join(folder, 'exec')]
  args.push('--pidfile', path.join(folder, 'pid'), '-H', address, '--iptables=false')
  args.push('--bridge=none', '--shutdown-timeout=1')
  const runtime: ContainerRuntime = {
    ...testRuntime(),
    env: { ...testRuntime().env, DOCKER_HOST: address },
  }
  let daemon: ChildProcess
  const docker: Engine['docker'] = async (...words) => {
    const { code, stdout, stderr } = await runtimeCommand(runtime, words)
    if (code !== 0) throw new Error(`docker ${words.join(' ')}: ${stderr}`)
    return stdout.replace(/\n$/, '')
  }
  const start = async () => {
    // In a network of its own: an engine without a bridge removes that of any other engine.
    daemon = spawn('unshare', ['--net', 'dockerd', ...args], {
      stdio: 'ignore',
      env: { PATH: process.env['PATH'] },
    })
    for (let tries = 0; tries < 300; tries++) {
      const { code } = await runtimeCommand(runtime, ['info', '--format', '{{.ID}}'])
      if (code === 0) return
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
    throw new Error('the engine does not start')
  }
  const ended = () =>
    new Promise<void>((resolve) => {
      if (daemon.exitCode !== null || daemon.signalCode !== null) resolve()
      else daemon.once('exit', () => resolve())
    })
  t.teardown(async () => {
    daemon.kill('SIGCONT')
    daemon.kill('SIGTERM')
    await ended()
    // A crash leaves its programs and mounts behind.
    for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
      if (commandLine(pid).includes(folder)) process.kill(Number(pid), 'SIGKILL')
    }
    const mounts = readFileSync('/proc/mounts', 'utf8').split('\n')
    for (const line of mounts.toReversed()) {
      const place = line.split(' ')[1] ?? ''
      if (place.startsWith(folder)) spawnSync('umount', ['-l', place])
    }
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  })
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
    docker,
    containers: async () =>
      (await docker('ps', '-aq', '--no-trunc')).split('\n').filter((line) => line !== ''),
    stoppedBy(words) {
      const bin = path.join(folder, 'bin')
      mkdirSync(bin, { recursive: true })
      const file = path.join(bin, 'docker')
      const real = spawnSync('sh', ['-c', 'command -v docker']).stdout.toString().trim()
      const stop = `[ "$1 $2" = "${words}" ] && [ ! -e ${bin}/done ] && touch ${bin}/done && kill -STOP ${daemon.pid}`
      rmSync(path.join(bin, 'done'), { force: true })
      writeFileSync(file, `#!/bin/sh\n${stop}\nexec ${real} "$@"\n`)
      chmodSync(file, 0o755)
      return bin
    },
    goOn: () => void daemon.kill('SIGCONT'),
    async crash() {
      daemon.kill('SIGKILL')
      await ended()
    },
  }
}

function commandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1')
  } catch {
    return ''
  }
}
