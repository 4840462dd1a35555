import type { Socket as DatagramSocket } from 'node:dgram'
import { connect, type Socket } from 'node:net'
import { DOOR_HOST, DOOR_PORT, type DoorServer, type DoorSockets, NAMES_PORT } from './door.ts'
import type { DoorPlan } from './door-plan.ts'
import { openInside } from './open-inside.ts'
import { probeInside, wayOut } from './probe-inside.ts'
import {
  encodePreamble,
  formatLine,
  LineReader,
  MAX_RELAYED,
  parseLine,
  RELAY_FOLDER,
  type RelayLine,
  SOCKET_NAME,
} from './relay-wire.ts'
import { closeDebugger } from '../debugger.ts'

// A program of its own: it runs in a container that shares the network namespace of a sandbox, opens the door there and
// carries every connection over a unix socket to the proxy. It decides nothing. It ends when the proxy's process does.

const SOCKET = `${RELAY_FOLDER}/${SOCKET_NAME}`
/** Questions for the resolver that wait for their answers. More are dropped: who asked asks again. */
const MAX_QUESTIONS = 1_024
/** How long a connection that the client has reset waits for the proxy to let go, in milliseconds. */
const LET_GO_MS = 2_000
/** How long one that the proxy has let go of may take nothing of what was sent, in milliseconds. */
const LET_GO_IDLE_MS = 10_000
/** Clients beyond the bound that may take their time to read their refusal. */
const LINGERING_SURPLUS = 64
const LINGER_MS = 1_000
const BUSY =
  'HTTP/1.1 503 egress refused: too many connections of this sandbox are open\r\n' +
  'X-Iterion-Reason: limit\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'

/** A client that is carried. */
interface Carried {
  readonly client: Socket
  /** The proxy reads and writes no more of it. */
  letGo(): void
}

/** The relay: one control connection, one door, any number of connections up to the bound. */
class Relay {
  readonly #plan: DoorPlan
  readonly #control = connect({ path: SOCKET })
  /** The clients that are carried, by the number that control lines name them by. */
  readonly #clients = new Map<number, Carried>()
  #surplus = 0
  #lastId = 0

  constructor(plan: DoorPlan) {
    this.#plan = plan
  }

  /** @param door what was opened, or why it was not */
  start(door: DoorSockets | string): void {
    const reader = new LineReader()
    this.#control.on('error', (error) => exit(`the relay cannot reach ${SOCKET}: ${error.message}`))
    this.#control.on('close', () => exit('the proxy is gone'))
    this.#control.on('connect', () => {
      this.#control.write(encodePreamble({ kind: 'control' }))
      if (typeof door === 'string') this.#fault(door)
      else this.#serveAll(door)
    })
    this.#control.on('data', (chunk) => {
      const lines = reader.push(chunk)
      if (lines === undefined) exit('what the proxy says is no order')
      for (const line of lines) this.#obey(line)
    })
  }

  #say(line: RelayLine): void {
    this.#control.write(formatLine(line))
  }

  #fault(text: string): void {
    this.#say({ kind: 'fault', text })
    this.#control.end()
  }

  #obey(line: string): void {
    const order = parseLine(line)
    if (order?.kind === 'reset') this.#clients.get(order.id)?.client.resetAndDestroy()
    else if (order?.kind === 'closed') this.#clients.get(order.id)?.letGo()
    else if (order?.kind === 'probe') {
      probeInside(this.#plan).then(
        (problem = '') => this.#say({ kind: 'probed', text: problem }),
        (error: unknown) => this.#say({ kind: 'probed', text: String(error) }),
      )
    }
  }

  #serveAll({ servers, datagrams, missing = '' }: DoorSockets): void {
    for (const one of servers) this.#serve(one)
    if (datagrams) this.#carryDatagrams(datagrams)
    this.#say({ kind: 'listening', text: missing })
  }

  #serve({ server, use }: DoorServer): void {
    const port = use === 'proxy' ? DOOR_PORT : use === 'names' ? NAMES_PORT : Number(use)
    server.on('error', (error) => this.#fault(error.message))
    server.on('connection', (client) => {
      client.on('error', () => undefined)
      if (this.#clients.size < MAX_RELAYED) this.#carry(client, port)
      else if (use === 'proxy') this.#turnAway(client)
      // Whoever knows of no proxy understands no word.
      else client.resetAndDestroy()
    })
  }

  /** Carries the datagrams for the resolver, by a connection that is made when there is one. */
  #carryDatagrams(datagrams: DatagramSocket): void {
    let carrier: DatagramCarrier | undefined
    datagrams.on('error', ignore)
    datagrams.on('message', (question, { address, port }) => {
      carrier ??= new DatagramCarrier(
        (answer, asker) => datagrams.send(answer, asker.port, asker.address, ignore),
        () => (carrier = undefined),
      )
      carrier.ask(question, { address, port })
    })
  }

  /** A client too many is told, within a bound. */
  #turnAway(client: Socket): void {
    if (this.#surplus >= LINGERING_SURPLUS) {
      client.destroy()
      return
    }
    this.#surplus++
    client.once('close', () => this.#surplus--)
    client.setTimeout(LINGER_MS, () => client.destroy())
    client.on('end', () => client.destroySoon())
    client.end(BUSY)
    client.resume()
  }

  /** Carries one connection. Ends are carried as ends, and resets as resets: a unix socket itself knows none. */
  #carry(client: Socket, port: number): void {
    const id = (this.#lastId = (this.#lastId + 1) % 2 ** 32)
    const { localAddress: address = DOOR_HOST } = client
    const carrier = connect({ path: SOCKET, allowHalfOpen: true })
    carrier.write(encodePreamble({ kind: 'carried', id, address, port }))
    client.pipe(carrier)
    carrier.pipe(client, { end: false })
    // Word of a reset is sent before a carrier is closed: it is read in this turn of the loop or the next.
    const soon = (act: () => void) => setImmediate(() => setImmediate(act))
    // The proxy has let go of it, whatever the client does: it goes when it has what was sent.
    const goSoon = () => {
      client.setTimeout(LET_GO_IDLE_MS, () => client.destroy())
      client.destroySoon()
    }
    let isLetGo = false
    this.#clients.set(id, {
      client,
      letGo() {
        isLetGo = true
        if (carrier.readableEnded) goSoon()
      },
    })
    carrier.on('end', () => soon(() => (isLetGo ? goSoon() : client.end())))
    carrier.on('error', () => client.resetAndDestroy())
    carrier.on('close', () => soon(goSoon))
    let isReset = false
    client.on('error', () => {
      isReset = true
      this.#say({ kind: 'reset', id })
    })
    client.on('close', () => {
      this.#clients.delete(id)
      // After a reset the proxy closes first: a close of ours could reach it before the word, and look like an end.
      if (isReset) setTimeout(() => carrier.destroy(), LET_GO_MS)
      else if (!carrier.writableEnded) carrier.destroy()
    })
  }
}

function ignore(): void {}

interface Asker {
  readonly address: string
  readonly port: number
}

/** Carries questions for the resolver, which are answered in order. */
class DatagramCarrier {
  readonly #socket = connect({ path: SOCKET })
  readonly #askers: Asker[] = []
  #rest = Buffer.alloc(0)

  constructor(onAnswer: (answer: Buffer, asker: Asker) => void, onEnd: () => void) {
    this.#socket.on('error', ignore)
    this.#socket.on('close', onEnd)
    this.#socket.on('data', (chunk) => {
      for (const answer of this.#answers(chunk)) {
        const asker = this.#askers.shift()
        if (asker && answer.length > 0) onAnswer(answer, asker)
      }
    })
    this.#socket.write(encodePreamble({ kind: 'framed' }))
  }

  ask(question: Buffer, asker: Asker): void {
    if (this.#askers.length >= MAX_QUESTIONS) return
    this.#askers.push(asker)
    const length = Buffer.alloc(2)
    length.writeUInt16BE(question.length)
    this.#socket.write(Buffer.concat([length, question]))
  }

  #answers(chunk: Buffer): Buffer[] {
    const answers: Buffer[] = []
    let rest = Buffer.concat([this.#rest, chunk])
    while (rest.length >= 2 && rest.length >= 2 + rest.readUInt16BE(0)) {
      const end = 2 + rest.readUInt16BE(0)
      answers.push(rest.subarray(2, end))
      rest = rest.subarray(end)
    }
    this.#rest = rest
    return answers
  }
}

function exit(why: string): never {
  process.stderr.write(`${why}\n`)
  process.exit(1)
}

/** Opens the door; answers why it cannot be. */
async function open(plan: DoorPlan): Promise<DoorSockets | string> {
  try {
    return wayOut() ?? (await openInside(plan, process.env))
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

/** Becomes somebody else for good, who may do nothing to the namespace. */
function become(uid: number, gid: number): void {
  process.setgroups?.([])
  process.setgid?.(gid)
  process.setuid?.(uid)
  if (process.getuid?.() !== uid || process.getgid?.() !== gid) exit('the relay is still root')
}

closeDebugger()
const [, , planText = '', uid, gid] = process.argv
const plan = JSON.parse(planText) as DoorPlan
// Connections that come before it serves them wait in the system.
const door = open(plan)
void door.then((opened) => {
  become(Number(uid), Number(gid))
  new Relay(plan).start(opened)
})
