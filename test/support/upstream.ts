import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import type { Test } from 'tap'
import { type RawClient, rawClientOf } from './raw-client.ts'

/** A server that records every byte. */
export interface Upstream {
  readonly server: Server
  readonly host: string
  readonly port: number
  /** Every connection it took, in order. */
  readonly connections: readonly RawClient[]
  /** How many of them the other side has neither ended nor reset. */
  readonly open: number
  /** Waits for the connection of that number, from 0. */
  connection(index?: number): Promise<RawClient>
  /** Waits until so many connections are open. */
  untilOpen(count: number): Promise<void>
}

type OnConnection = (connection: RawClient, index: number) => void

/** Opens a recording server on a port of the system's choice; `onConnection` says what it does. */
export async function openUpstream(
  t: Test,
  onConnection: OnConnection = () => undefined,
  host = '127.0.0.1',
): Promise<Upstream> {
  const connections: RawClient[] = []
  const open = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    open.add(socket)
    socket.once('close', () => open.delete(socket))
    const connection = rawClientOf(socket)
    connections.push(connection)
    onConnection(connection, connections.length - 1)
  })
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  t.teardown(() => {
    for (const socket of open) socket.destroy()
    server.close()
  })
  const until = async (what: string, isDone: () => boolean) => {
    for (let waited = 0; !isDone(); waited += 5) {
      if (waited > 3_000) throw new Error(`the upstream never had ${what}`)
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  }
  const upstream: Upstream = {
    server,
    host,
    port: (server.address() as AddressInfo).port,
    connections,
    get open() {
      return connections.filter(({ isEnded, isClosed }) => !isEnded && !isClosed).length
    },
    async connection(index = 0) {
      await until(`connection ${index}`, () => connections.length > index)
      const [found] = connections.slice(index)
      if (found === undefined) throw new TypeError('it is there')
      return found
    },
    untilOpen: (count) => until(`${count} open connections`, () => upstream.open === count),
  }
  return upstream
}

/** A request as an HTTP upstream received it. */
export interface Received {
  /** The request line. */
  readonly line: string
  /** Names in lower case, in order. */
  readonly fields: readonly (readonly [name: string, value: string])[]
  /** The body as it came, chunk framing included, as latin1. */
  readonly body: string
  /** The number of the connection, from 0. */
  readonly connection: number
}

export interface HttpUpstream extends Upstream {
  readonly received: readonly Received[]
  request(index?: number): Promise<Received>
}

type Reply = (request: Received, connection: RawClient) => string | Buffer | undefined

/** What an HTTP upstream says when a test does not care. */
export const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

/** Opens a server that reads whole requests and answers each with the bytes that `reply` gives. */
export async function openHttpUpstream(
  t: Test,
  reply: Reply = () => OK,
  host = '127.0.0.1',
): Promise<HttpUpstream> {
  const received: Received[] = []
  const upstream = await openUpstream(
    t,
    (connection, index) => {
      let taken = 0
      connection.socket.on('end', () => connection.end())
      connection.socket.on('data', () => {
        for (;;) {
          const request = takeRequest(connection.text.slice(taken))
          if (request === undefined) return
          taken += request.length
          const one = { ...request, connection: index }
          received.push(one)
          const answer = reply(one, connection)
          if (answer !== undefined) connection.send(answer)
        }
      })
    },
    host,
  )
  return Object.assign(Object.create(upstream) as Upstream, {
    received,
    async request(index = 0) {
      for (let waited = 0; waited < 3_000; waited += 5) {
        const [found] = received.slice(index)
        if (found) return found
        await new Promise((resolve) => setTimeout(resolve, 5))
      }
      throw new Error(`request ${index} never came`)
    },
  })
}

/** The values of a request field. */
export function fieldsOf(request: Received, name: string): string[] {
  return request.fields.filter(([one]) => one === name).map(([, value]) => value)
}

function takeRequest(text: string) {
  const split = text.indexOf('\r\n\r\n')
  if (split === -1) return undefined
  const [line = '', ...lines] = text.slice(0, split).split('\r\n')
  const fields = lines.map((one) => {
    const colon = one.indexOf(':')
    return [one.slice(0, colon).toLowerCase(), one.slice(colon + 1).trim()] as const
  })
  const start = split + 4
  const value = (name: string) => fields.find(([one]) => one === name)?.[1]
  let end = start + Number(value('content-length') ?? 0)
  if (value('transfer-encoding') !== undefined) {
    const last = /(?:^|\r\n)0\r\n(?:[^\r\n]+\r\n)*\r\n/.exec(text.slice(start))
    if (last === null) return undefined
    end = start + last.index + last[0].length
  }
  if (text.length < end) return undefined
  return { line, fields, body: text.slice(start, end), length: end }
}
