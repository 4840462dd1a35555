import { connect, createServer, type Socket } from 'node:net'
import { DOOR_HOST, DOOR_PORT } from './door.ts'
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

// A program of its own: it runs in a container that shares the network namespace of a sandbox, opens the door there and
// carries every connection over a unix socket to the proxy. It decides nothing. It ends when the proxy's process does.

const SOCKET = `${RELAY_FOLDER}/${SOCKET_NAME}`
/** How long a connection that the client has reset waits for the proxy to let go, in milliseconds. */
const LET_GO_MS = 2_000
/** Clients beyond the bound that may take their time to read their refusal. */
const LINGERING_SURPLUS = 64
const LINGER_MS = 1_000
const BUSY =
  'HTTP/1.1 503 egress refused: too many connections of this sandbox are open\r\n' +
  'X-Iterion-Reason: limit\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'

/** The relay: one control connection, one door, any number of connections up to the bound. */
class Relay {
  readonly #control = connect({ path: SOCKET })
  /** The clients that are carried, by the number that control lines name them by. */
  readonly #clients = new Map<number, Socket>()
  #surplus = 0
  #lastId = 0

  start(): void {
    const reader = new LineReader()
    this.#control.on('error', (error) => exit(`the relay cannot reach ${SOCKET}: ${error.message}`))
    this.#control.on('close', () => exit('the proxy is gone'))
    this.#control.on('connect', () => {
      this.#control.write(encodePreamble({ kind: 'control' }))
      this.#openDoor()
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
    if (order?.kind === 'reset') this.#clients.get(order.id)?.resetAndDestroy()
    else if (order?.kind === 'probe') {
      probeInside(DOOR_HOST, DOOR_PORT).then(
        (problem = '') => this.#say({ kind: 'probed', text: problem }),
        (error: unknown) => this.#say({ kind: 'probed', text: String(error) }),
      )
    }
  }

  #openDoor(): void {
    const problem = wayOut()
    if (problem !== undefined) {
      this.#fault(problem)
      return
    }
    const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
      client.on('error', () => undefined)
      if (this.#clients.size >= MAX_RELAYED) this.#turnAway(client)
      else this.#carry(client)
    })
    server.on('error', (error) => this.#fault(error.message))
    server.listen({ host: DOOR_HOST, port: DOOR_PORT, backlog: 511 }, () =>
      this.#say({ kind: 'listening' }),
    )
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
  #carry(client: Socket): void {
    const id = (this.#lastId = (this.#lastId + 1) % 2 ** 32)
    this.#clients.set(id, client)
    const { localAddress: address = DOOR_HOST, localPort: port = DOOR_PORT } = client
    const carrier = connect({ path: SOCKET, allowHalfOpen: true })
    carrier.write(encodePreamble({ kind: 'carried', id, address, port }))
    client.pipe(carrier)
    carrier.pipe(client, { end: false })
    // Word of a reset is sent before a carrier is closed: it is read in this turn of the loop or the next.
    const endClient = () => setImmediate(() => setImmediate(() => client.end()))
    carrier.on('end', endClient)
    carrier.on('error', () => client.resetAndDestroy())
    carrier.on('close', () => {
      if (!client.writableEnded) endClient()
    })
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

function exit(why: string): never {
  process.stderr.write(`${why}\n`)
  process.exit(1)
}

new Relay().start()
