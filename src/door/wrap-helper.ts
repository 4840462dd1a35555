import type { StdioOptions } from 'node:child_process'
import { readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import type { DoorPlan } from './door-plan.ts'
import { handOver, type Tell } from './hand-over.ts'
import type { SocketMessage } from './helper-channel.ts'
import { inheritedStreams } from './inherited-streams.ts'
import { openInside } from './open-inside.ts'
import { probeInside, wayOut } from './probe-inside.ts'
import { SEAL_ENV, type Words } from './seal-words.ts'
import { systemSpawner } from './spawn.ts'
import { closeDebugger } from '../debugger.ts'

// A program of its own: it runs in the outer namespaces of a seal, as root there. It sets them up, opens the door's socket
// and hands it over, proves the door, and lets the command run, which by then is started but for the last step. Its channel
// is its life: when its parent is gone it ends, and what it started ends with it. It imports as little as it can, because
// every command waits for its start.

/** How often it looks whether its parent is still there, in milliseconds. */
const PARENT_LOOK_MS = 500
const MAX_COMPLAINT = 4_096

/** The caller's standard error. Its own is for complaints. */
const ERRORS_DESCRIPTOR = 4

/** What the parent asks for. */
export type WrapOrder =
  /** Comes first: the namespaces are set up and the door is opened, and the command is made ready. */
  | {
      readonly kind: 'prepare'
      readonly plan: DoorPlan
      /** Sets up the namespaces. */
      readonly setUp: Words
      /** The command, with all that it starts through. */
      readonly command: Words
      /** The environment of what it starts through, which carries the command's. */
      readonly env: Readonly<Partial<Record<string, string>>>
    }
  | { readonly kind: 'probe' }
  /** Lets the command run. */
  | { readonly kind: 'release' }
  | { readonly kind: 'signal'; readonly signal: NodeJS.Signals }

/** What it tells its parent. */
export type WrapMessage =
  | SocketMessage
  /** The probe is done; undefined: the door is the one way out. */
  | { readonly kind: 'probed'; readonly problem?: string }
  /** The command runs. */
  | { readonly kind: 'started' }
  /** The command has ended. */
  | { readonly kind: 'ended'; readonly code: number }

const tell: Tell<WrapMessage> = (message, handle, done = () => undefined) => {
  process.send?.(message, handle, {}, done)
}

/** The last word: the process ends when it is out. */
function tellAndExit(message: WrapMessage): void {
  tell(message, undefined, () => process.exit(0))
}

async function openDoor(plan: DoorPlan): Promise<void> {
  // Nothing listens before it is known that this is a namespace of its own.
  const problem = wayOut()
  if (problem !== undefined) throw new Error(problem)
  handOver(await openInside(plan, SEAL_ENV), tell)
}

/** A command that is to run. */
interface HeldCommand {
  /** Lets it run, as soon as it is ready. */
  release(): void
  /** Passes a signal on. Before it runs there is nobody to have it, and it is kept until then. */
  signal(name: NodeJS.Signals): void
}

function prepare(order: WrapOrder & { readonly kind: 'prepare' }): HeldCommand {
  const { plan, setUp, command, env } = order
  const { child, complaint } = start(setUp, SEAL_ENV, ['pipe', 'pipe', 'pipe'])
  child.stdin?.on('error', () => undefined)
  let held: HeldCommand | undefined
  let isSetUp = false
  let isReleased = false
  const early: NodeJS.Signals[] = []
  const proceed = () => {
    if (isSetUp && isReleased) held?.release()
  }
  let said = ''
  let isOpening = false
  child.stdout?.on('data', (chunk: Buffer) => {
    said += chunk.toString()
    if (!isOpening) {
      isOpening = true
      openDoor(plan).then(
        () => child.stdin?.end('open\n'),
        (error: unknown) => tellAndExit({ kind: 'fault', why: String(error) }),
      )
    }
    if (held || !said.endsWith('covered\n')) return
    // What it sees is as it will be. It starts through all but its last step, while the door is being opened.
    try {
      held = hold(command, env)
    } catch (error) {
      tellAndExit({ kind: 'fault', why: error instanceof Error ? error.message : String(error) })
      return
    }
    for (const name of early) held.signal(name)
  })
  child.on('close', (code) => {
    if (code !== 0 || !held) {
      tellAndExit({ kind: 'fault', why: complaint() || 'the set-up failed' })
      return
    }
    isSetUp = true
    proceed()
  })
  return {
    release() {
      isReleased = true
      proceed()
    },
    signal: (name) => (held ? held.signal(name) : early.push(name)),
  }
}

/** Starts all that a command starts through. The last of it waits for a line. */
function hold(command: Words, env: Readonly<Partial<Record<string, string>>>): HeldCommand {
  const streams: StdioOptions = [
    ...(['inherit', 'inherit', 'pipe', ERRORS_DESCRIPTOR, 'pipe'] as const),
    ...inheritedStreams(ERRORS_DESCRIPTOR + 1),
  ]
  const { child, complaint } = start(command, env, streams)
  const channel = child.stdio[4] as Socket
  channel.on('error', () => undefined)
  const early: NodeJS.Signals[] = []
  let said = ''
  let isReleased = false
  let isStarted = false
  const proceed = () => {
    if (said === 'ready\n' && isReleased) channel.write('go\n')
    if (!said.endsWith('started\n') || isStarted) return
    isStarted = true
    tell({ kind: 'started' })
    for (const name of early) signalCommand(child.pid, name)
  }
  channel.on('data', (chunk: Buffer) => {
    said = (said + chunk.toString()).slice(-MAX_COMPLAINT)
    proceed()
  })
  // All that it started has ended by then: its pipes are read to their ends.
  child.on('close', (code, signal) => {
    if (!isStarted) tellAndExit({ kind: 'fault', why: complaint() || 'it ended early' })
    else if (code === null) tellAndExit({ kind: 'fault', why: `${signal} ended it` })
    else tellAndExit({ kind: 'ended', code })
  })
  return {
    release() {
      isReleased = true
      proceed()
    },
    signal: (name) => (isStarted ? signalCommand(child.pid, name) : early.push(name)),
  }
}

function start(
  [program, ...args]: Words,
  env: Readonly<Partial<Record<string, string>>>,
  stdio: StdioOptions,
) {
  const child = systemSpawner(program, args, { env, stdio })
  let text = ''
  child.stderr?.on('data', (chunk: Buffer) => {
    text = (text + chunk.toString()).slice(-MAX_COMPLAINT)
  })
  child.on('error', (error: NodeJS.ErrnoException) => {
    const why = error.code === 'ENOENT' ? `${program}: not found` : error.message
    tellAndExit({ kind: 'fault', why })
  })
  return { child, complaint: () => text.trim() }
}

/** Signals that a terminal gives to all in front of it. */
const OF_TERMINAL: ReadonlySet<NodeJS.Signals> = new Set(['SIGINT', 'SIGQUIT', 'SIGWINCH'])

function signalCommand(guard: number | undefined, signal: NodeJS.Signals): void {
  const command = firstChild(firstChild(guard))
  if (command === undefined) return
  try {
    if (!OF_TERMINAL.has(signal)) process.kill(command, signal)
    // As a terminal does: all that belong together have it.
    else if (!isInFront(command)) process.kill(isLeader(command) ? -command : command, signal)
  } catch {
    // It has just ended.
  }
}

/** The oldest child of a process, by the numbers of this side. */
function firstChild(pid: number | undefined): number | undefined {
  if (pid === undefined) return undefined
  try {
    const [first] = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ')
    return Number(first) > 0 ? Number(first) : undefined
  } catch {
    return undefined
  }
}

/** True for the first of a group of its own. */
function isLeader(pid: number): boolean {
  return statusOf(pid)[2] === String(pid)
}

/** True if a process belongs to the group that its terminal is given to: it has the signals of the terminal by itself. */
function isInFront(pid: number): boolean {
  const fields = statusOf(pid)
  return fields[2] !== undefined && fields[2] === fields[5]
}

/** `state parent group session terminal group-in-front ...` */
function statusOf(pid: number): string[] {
  // They stand behind `pid (name)`, and a name may hold anything.
  return readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? []
}

closeDebugger()
process.on('disconnect', () => process.exit(1))
// A parent that ended while the socket was on its way is not always told by an event.
setInterval(() => process.connected || process.exit(1), PARENT_LOOK_MS)
// They are for the command, which has them from its terminal or through the parent.
for (const signal of ['SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGTERM'] as const) {
  process.on(signal, () => undefined)
}
let held: HeldCommand | undefined
let plan: DoorPlan | undefined
process.on('message', (order: WrapOrder) => {
  switch (order.kind) {
    case 'prepare':
      plan = order.plan
      held = prepare(order)
      break
    case 'probe':
      if (plan === undefined) throw new TypeError('there is no door yet')
      probeInside(plan).then(
        (problem) => tell({ kind: 'probed', ...(problem !== undefined && { problem }) }),
        (error: unknown) => tell({ kind: 'probed', problem: String(error) }),
      )
      break
    case 'release':
      held?.release()
      break
    case 'signal':
      held?.signal(order.signal)
      break
    default:
      tellAndExit({ kind: 'fault', why: 'it was asked for something unknown' })
  }
})
