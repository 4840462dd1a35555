import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Test } from 'tap'
import { systemSpawner } from '../../src/door/spawn.ts'
import type { ProcessIdentity, SandboxHost } from '../../src/sandbox/host.ts'
import { readIdentity } from '../../src/sandbox/process-identity.ts'
import { RunControl } from '../../src/sandbox/run-control.ts'
import type { RunFlags } from '../../src/sandbox/run-plan.ts'
import { runWorkflow } from '../../src/sandbox/run-workflow.ts'
import { NO_FLAGS } from './run-store.ts'

/** What the clock of a stage always says. */
export const NOW = Date.UTC(2031, 4, 6, 7, 8, 9)

/** Of this process, so that it counts as alive, under a boot that nothing else on this machine is of. */
export const IDENTITY: ProcessIdentity = {
  ...readIdentity(process.pid),
  bootId: 'the-boot-of-a-test',
}

/** The machine of a test: what was asked of it, and what it started. */
export interface Stage {
  readonly host: SandboxHost
  readonly root: string
  readonly workspace: string
  /** The members of the host that were read. */
  readonly asked: ReadonlySet<string>
  readonly started: readonly {
    readonly program: string
    readonly args: readonly string[]
    readonly env: Readonly<Partial<Record<string, string>>>
  }[]
  readonly resolved: readonly string[]
  /** What the commands printed. */
  readonly output: () => string
  /** Files that were made in the folders of the traps; `started` if a program of the traps was. */
  readonly trapped: () => readonly string[]
}

/** Programs that nobody may start from the PATH of this process. */
const TRAP_PROGRAMS = ['docker', 'podman', 'nsenter', 'sh', 'curl', 'env']

/** Sets traps in the real environment, until the test ends, and makes a machine beside it. */
export function openStage(t: Test, env: Readonly<Record<string, string>>): Stage {
  const root = mkdtempSync(path.join(tmpdir(), 'iet-'))
  t.teardown(() => rmSync(root, { recursive: true, force: true }))
  const folder = (name: string) => {
    mkdirSync(path.join(root, name), { mode: 0o700 })
    return path.join(root, name)
  }
  const [home = '', workspace = '', tempRoot = '', iterionHome = ''] = [
    'home',
    'work',
    'tmp',
    'store',
  ].map(folder)
  const [trapHome = '', trapTemp = '', trapBin = ''] = ['trap-home', 'trap-tmp', 'trap-bin'].map(
    folder,
  )
  for (const name of TRAP_PROGRAMS) {
    const text = `#!/bin/sh\necho ${name} >> ${trapHome}/started\nexit 9\n`
    writeFileSync(path.join(trapBin, name), text, { mode: 0o755 })
  }
  setTraps(t, {
    HOME: trapHome,
    USER: 'trap',
    TMPDIR: trapTemp,
    PATH: trapBin,
    ITERION_HOME: trapHome,
    ITERION_SANDBOX_OVERRIDE: 'trap',
    ITERION_SANDBOX_DEFAULT: 'trap',
    ITERION_SANDBOX_FLOOR: 'trap',
    ITERION_SANDBOX_DEFAULT_IMAGE: '-trap',
    ITERION_SANDBOX_HOST_STATE: 'trap',
    ITERION_SANDBOX_HOST_STATE_GUARD: 'trap',
    ITERION_SANDBOX_RUNTIME: 'trap',
    ITERION_SANDBOX_PULL_TIMEOUT: 'trap',
    ITERION_SANDBOX_MEMORY: 'trap',
    ITERION_SANDBOX_PIDS: 'trap',
    DOCKER_HOST: 'tcp://trap.invalid:1',
    DOCKER_CONFIG: trapHome,
    SECRET_OF_THE_TEST: 'trap',
  })

  const asked = new Set<string>()
  const started: Stage['started'][number][] = []
  const resolved: string[] = []
  let output = ''
  const real: SandboxHost = {
    home,
    env,
    iterionHome,
    tempRoot,
    cwd: workspace,
    now: () => NOW,
    resolver: async (name) => {
      resolved.push(name)
      return []
    },
    spawn: (program, args, options) => {
      started.push({ program, args, env: options.env ?? {} })
      const child = systemSpawner(program, args, options)
      child.stdout?.on('data', (text: Buffer) => (output += text.toString()))
      return child
    },
    signal: () => t.fail('nobody has to be sent a signal'),
    user: { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0, name: 'ada' },
    memoryBytes: 4 * 1024 ** 3,
    identity: IDENTITY,
  }
  return {
    host: new Proxy(real, {
      get: (host, name: keyof SandboxHost) => {
        asked.add(name)
        return host[name]
      },
    }),
    root,
    workspace,
    asked,
    started,
    resolved,
    output: () => output,
    trapped: () => [trapHome, trapTemp].flatMap((one) => readdirSync(one)),
  }
}

function setTraps(t: Test, traps: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(traps)) {
    const before = process.env[name]
    process.env[name] = value
    t.teardown(() => {
      if (before === undefined) delete process.env[name]
      else process.env[name] = before
    })
  }
}

const FLAGS: RunFlags = NO_FLAGS

interface Errand {
  readonly command: readonly string[]
  readonly image?: string
  readonly policy?: string
  readonly flags?: Partial<RunFlags>
}

/** Runs one command on a stage. */
export async function runOn({ host, workspace }: Stage, { command, image, policy, flags }: Errand) {
  const said: string[] = []
  const result = await runWorkflow(
    host,
    {
      file: null,
      image: image ?? null,
      policy: policy ?? null,
      command: [...command],
      preset_dirs: [],
    },
    {
      flags: { ...FLAGS, ...flags },
      workspace,
      operatorEnv: {},
      builtIn: 'auto',
      version: '0.0.0',
      interactive: false,
      tty: false,
      stdio: ['ignore', 'pipe', 'pipe'],
      say: (line) => said.push(line),
      stderr: (text) => said.push(text),
      control: new RunControl(),
    },
  )
  return { ...result, said }
}

/** What the log of the one run of a stage holds. */
export function eventsOf({ root }: Stage, id: string): { ts: string; type: string }[] {
  return readFileSync(path.join(root, 'store/runs', id, 'events.jsonl'), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as { ts: string; type: string })
}
