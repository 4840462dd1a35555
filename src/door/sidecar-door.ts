import { randomBytes } from 'node:crypto'
import { chmodSync, chownSync, lstatSync, rmSync } from 'node:fs'
import path from 'node:path'
import { EgressError } from '../errors.ts'
import { runtimeCommand } from './container-runtime.ts'
import { type Door, type DoorSite, portsTakenBy } from './door.ts'
import { openRelayServer, type RelayServer } from './relay-server.ts'
import { RELAY_FOLDER, type RelayLine, SOCKET_NAME } from './relay-wire.ts'
import type { RunResult } from './spawn.ts'

/** Where the relay is in the project's own image. */
const RELAY_PROGRAM = '/app/dist/program/relay-program.cjs'
/** Who carries for root: the user of the project's image. */
const CARRIER = 65_532
/** The longest path of a unix socket, in bytes. */
const MAX_SOCKET_PATH = 107
/** How long a relay whose container has started may take to be there, in milliseconds. */
const READY_MS = 10_000
/** After so many milliseconds it is looked at whether its container still runs. */
const SOON_MS = 1_000
/** How long a probe may take, in milliseconds. */
const PROBE_MS = 20_000
/** How long the runtime may take to remove a relay, in milliseconds. */
const REMOVE_MS = 3_000

/**
 * Places a door without being root: a relay in a container of its own joins the namespace and carries every connection to
 * a unix socket of ours.
 *
 *     node ──▶ 127.0.0.1:3128 (relay, in the namespace) ──unix socket, bind-mounted──▶ proxy
 *
 * @throws {EgressError} SANDBOX_DOOR_FAILED
 */
export async function placeSidecarDoor(site: DoorSite): Promise<Door> {
  const socketPath = path.join(site.directory, SOCKET_NAME)
  assertOurs(site, socketPath)
  const relay = new Relay()
  const server = await openRelayServer(socketPath, site.plan.stub, relay).catch(
    (error: unknown) => {
      throw failed(`no socket in ${site.directory}: ${String(error)}`, error)
    },
  )
  chmodSync(socketPath, 0o600)
  const carrier = carrierOf(site)
  if (site.user.uid === 0) {
    // The folder that it is in lets no other process of that number come here.
    for (const one of [site.directory, socketPath]) chownSync(one, carrier.uid, carrier.gid)
  }
  // Never that of another door: this one is removed by it, whatever becomes of the placing.
  const name = `iterion-egress-door-${randomBytes(8).toString('hex')}`
  const closeAll = async () => {
    server.close()
    rmSync(socketPath, { force: true })
    await remove(site, name)
  }
  try {
    const { code, stderr } = await runtimeCommand(
      site.runtime,
      ['run', '--detach', ...relayArgs(site, name)],
      { signal: site.signal },
    )
    if (site.signal.aborted) throw failed('it was given up')
    if (code !== 0) throw startFailure(site, stderr)
    const missing = await ready(site, relay, name)
    return sidecarDoor(site, relay, { server, missing, name, closeAll })
  } catch (error) {
    await closeAll()
    throw error
  }
}

interface Placed {
  readonly server: RelayServer
  /** Why it takes the ports of the plan; undefined: it does not. */
  readonly missing: string | undefined
  readonly name: string
  readonly closeAll: () => Promise<void>
}

function sidecarDoor(
  { plan }: DoorSite,
  relay: Relay,
  { server, missing, name, closeAll }: Placed,
): Door {
  let closed: Promise<void> | undefined
  return {
    kind: 'sidecar',
    servers: server.servers,
    datagrams: undefined,
    taken: missing === undefined ? [] : portsTakenBy(plan),
    missing,
    containers: [name],
    lost: relay.ended,
    async probe() {
      server.order({ kind: 'probe' })
      const line = await relay.next(PROBE_MS)
      if (line?.kind !== 'probed') throw failed('the relay does not answer')
      if (line.text !== '') throw failed(line.text)
    },
    close() {
      closed ??= closeAll()
      return closed
    },
  }
}

/** Who the relay becomes: the caller, or for root somebody who is nobody else. */
function carrierOf({ user }: DoorSite): { readonly uid: number; readonly gid: number } {
  return user.uid === 0 ? { uid: CARRIER, gid: CARRIER } : user
}

/** The relay's arguments for `run`, from the options to the program. */
function relayArgs(site: DoorSite, name: string): string[] {
  const { uid, gid } = carrierOf(site)
  // A comma in the path would end the field.
  const source = `"source=${site.directory.replaceAll('"', '""')}"`
  return [
    '--rm',
    `--name=${name}`,
    `--network=container:${site.containerId}`,
    // It sets rules for the addresses of the sandbox, and then becomes the carrier for good, without any of this.
    '--user=0:0',
    '--cap-drop=ALL',
    '--cap-add=NET_ADMIN',
    '--cap-add=SETUID',
    '--cap-add=SETGID',
    '--security-opt=no-new-privileges',
    '--read-only',
    '--pids-limit=64',
    '--memory=256m',
    '--log-driver=none',
    '--pull=never',
    '--no-healthcheck',
    // `bind` fails where the folder is not there, and `--volume` would make one.
    `--mount=type=bind,${source},target=${RELAY_FOLDER},readonly`,
    ...Object.entries(site.labels).map(([key, value]) => `--label=${key}=${value}`),
    '--entrypoint=node',
    site.sidecarImage,
    RELAY_PROGRAM,
    JSON.stringify(site.plan),
    String(uid),
    String(gid),
  ]
}

/** Waits until the relay listens; answers why it takes the ports of the plan, if it does. */
async function ready(site: DoorSite, relay: Relay, name: string): Promise<string | undefined> {
  const soon = await relay.next(SOON_MS, site.signal)
  const line = soon ?? (await nextWhileItRuns(site, relay, name))
  if (line?.kind === 'listening') return line.text === '' ? undefined : line.text
  if (line?.kind === 'fault') throw failed(line.text)
  if (site.signal.aborted) throw failed('it was given up')
  // Its container has no log. The same again in the foreground tells why it ended.
  await remove(site, name)
  const args = ['run', ...relayArgs(site, name)]
  const { signal } = site
  const { stderr } = await runtimeCommand(site.runtime, args, { signal, timeoutMs: 5_000 })
  throw startFailure(site, stderr)
}

/** The relay's next line; undefined as soon as its container has ended. */
async function nextWhileItRuns(
  { runtime, signal }: DoorSite,
  relay: Relay,
  name: string,
): Promise<RelayLine | undefined> {
  const over = new AbortController()
  const either = AbortSignal.any([signal, over.signal])
  const ended = runtimeCommand(runtime, ['wait', name], { signal: either })
  void ended.catch(() => undefined).then(() => over.abort())
  const line = await relay.next(READY_MS, either)
  over.abort()
  return line
}

/** Why a relay did not start, told by what the runtime or the relay complained about. */
function startFailure({ sidecarImage, directory }: DoorSite, complaint: string): EgressError {
  const why = complaint.trim()
  if (/no such image|unable to find image|image not known/i.test(why)) {
    return failed(
      `the image of the relay, ${sidecarImage}, is not here; make it in the project's folder: docker build -t ${sidecarImage} .`,
    )
  }
  if (/bind source path does not exist|statfs|cannot reach/i.test(why)) {
    return failed(
      `the relay's container does not see ${directory}; a remote engine cannot bind-mount a folder of this machine (${why})`,
    )
  }
  if (/cannot find module/i.test(why)) {
    return failed(
      `${sidecarImage} is not the image of this version of the project: it has no relay`,
    )
  }
  return failed(`the relay did not start: ${why === '' ? 'it says nothing' : why}`)
}

/** What the relay says, in order. */
class Relay {
  readonly #lines: RelayLine[] = []
  #isOver = false
  #wake: () => void = () => undefined
  #end: () => void = () => undefined

  /** Resolves when it is gone. */
  readonly ended = new Promise<void>((resolve) => (this.#end = resolve))

  readonly onLine = (line: RelayLine): void => {
    this.#lines.push(line)
    this.#wake()
  }

  readonly onEnd = (): void => {
    this.#isOver = true
    this.#wake()
    this.#end()
  }

  /** Its next line; undefined if it is gone, or none came in time. */
  async next(timeoutMs: number, signal?: AbortSignal): Promise<RelayLine | undefined> {
    if (this.#lines.length === 0 && !this.#isOver && !signal?.aborted) {
      let timer: NodeJS.Timeout | undefined
      await new Promise<void>((resolve) => {
        this.#wake = resolve
        timer = setTimeout(resolve, timeoutMs)
        signal?.addEventListener('abort', () => resolve(), { once: true })
      })
      clearTimeout(timer)
    }
    return this.#lines.shift()
  }
}

function remove({ runtime }: DoorSite, name: string): Promise<RunResult> {
  return runtimeCommand(runtime, ['rm', '--force', '--volumes', name], { timeoutMs: REMOVE_MS })
}

/** The folder has to be the caller's alone: whoever can connect to the socket is served without a token. */
function assertOurs({ directory, user }: DoorSite, socketPath: string): void {
  const status = lstatSync(directory, { throwIfNoEntry: false })
  if (!status?.isDirectory() || status.uid !== user.uid || (status.mode & 0o077) !== 0) {
    throw failed(`${directory} is not a folder of the caller alone`)
  }
  if (Buffer.byteLength(socketPath) > MAX_SOCKET_PATH) {
    throw failed(
      `the path ${socketPath} is too long for a socket (${MAX_SOCKET_PATH} bytes at most)`,
    )
  }
}

function failed(why: string, cause?: unknown): EgressError {
  return new EgressError('SANDBOX_DOOR_FAILED', `the sidecar door failed: ${why}`, { cause })
}
