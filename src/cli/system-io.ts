import { homedir, tmpdir, totalmem, userInfo } from 'node:os'
import path from 'node:path'
import { systemSpawner } from '../door/spawn.ts'
import { systemResolver } from '../proxy/system-resolver.ts'
import type { SandboxHost } from '../sandbox/host.ts'
import { readIdentity } from '../sandbox/process-identity.ts'
import type { Io } from './io.ts'

const ENDING: readonly NodeJS.Signals[] = ['SIGTERM', 'SIGINT']
const PASSED_ON: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGWINCH']

/** The process itself, as commands see it. */
export function systemIo(): Io {
  const script = process.argv[1] ?? ''
  let signals = 0
  return {
    stdout: printer(() => process.stdout),
    // Nobody can be told that nothing can be told.
    stderr: printer(() => process.stderr, true),
    // As with the others, making the stream takes milliseconds, and a run hands its own on as it is.
    get stdin() {
      return process.stdin
    },
    env: process.env,
    programName: script.endsWith('.js')
      ? `node ${path.relative('', script)}`
      : path.basename(script),
    onTerminate(listener) {
      for (const signal of ENDING) {
        process.on(signal, () => {
          // A second signal means: now.
          if (++signals > 1) process.exit(130)
          listener()
        })
      }
    },
    onAsked(listener) {
      process.on('SIGUSR2', listener)
    },
    onSignal(listener) {
      for (const signal of PASSED_ON) process.on(signal, () => listener(signal))
    },
    stdio: 'inherit',
    sandboxHost: systemHost,
  }
}

/**
 * Prints to a stream, which is made with the first text. A reader that has seen enough (`| head`) is no failure.
 *
 * @param isLast true: there is nowhere else to say that it does not work
 */
function printer(streamOf: () => NodeJS.WriteStream, isLast = false): (text: string) => void {
  let stream: NodeJS.WriteStream | undefined
  return (text) => {
    if (stream === undefined) {
      stream = streamOf()
      stream.on('error', (error: NodeJS.ErrnoException) => {
        if (error.code !== 'EPIPE' && !isLast) throw error
      })
    }
    stream.write(text)
  }
}

/** This machine and the user that the process runs as. */
function systemHost(): SandboxHost {
  const { env } = process
  const home = env['HOME'] || homeOf()
  return {
    home,
    env,
    iterionHome: path.resolve(env['ITERION_HOME'] || path.join(home, '.iterion')),
    tempRoot: tmpdir(),
    cwd: process.cwd(),
    now: Date.now,
    resolver: systemResolver,
    spawn: systemSpawner,
    signal: (pid, signal) => process.kill(pid, signal),
    user: caller(),
    memoryBytes: totalmem(),
    identity: readIdentity(process.pid),
  }
}

/** The home of an account; the root folder for who has none. */
function homeOf(): string {
  try {
    return homedir()
  } catch {
    return '/'
  }
}

/** Who calls. A UID that the machine has no name for is one all the same. */
function caller(): SandboxHost['user'] {
  const uid = process.getuid?.() ?? 0
  const gid = process.getgid?.() ?? 0
  try {
    return { uid, gid, name: userInfo().username }
  } catch {
    return { uid, gid, name: String(uid) }
  }
}
