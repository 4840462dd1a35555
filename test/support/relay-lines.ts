import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import type { Test } from 'tap'
import { Lane, Relay as TiedSockets } from '../../src/proxy/relay.ts'
import { giveTo } from '../../src/proxy/socket-owner.ts'
import { acceptFrom, chooseRelay, connectorOf } from '../../src/proxy/sockets.ts'
import { ESTABLISHED, openProxy, pause, type Place, RELAY } from './proxy.ts'

/** The far ends of a relayed connection, both plain sockets that nobody reads yet. */
export interface Line {
  readonly client: Socket
  readonly upstream: Socket
}

/** A relay that any number of connections go through. */
export interface Relay {
  readonly name: string
  /** @param early goes out before the answer to the CONNECT, where there is one: the first piece together with it */
  open(early?: readonly Buffer[]): Promise<Line>
}

/** A line whose near ends, which the relay holds, can be seen. */
export interface BareLine extends Line {
  readonly near: { readonly client: Socket; readonly upstream: Socket }
}

export interface BareRelay extends Relay {
  open(): Promise<BareLine>
}

const NOTHING = Buffer.alloc(0)

/** Tunnels through a whole proxy, each to a name of its own. */
export async function openProxyRelay(t: Test): Promise<Relay> {
  const hosts: Record<string, Place> = {}
  const { host, port } = await openProxy(t, { hosts, tls: { sni: 'off' } })
  let count = 0
  return {
    name: 'a proxy',
    async open([first = NOTHING, ...later] = []) {
      const name = `n${count++}.allowed.test`
      const { server, port: behind } = await listen()
      let ask: () => void = () => undefined
      let tell: () => void = () => undefined
      const asked = new Promise<void>((resolve) => (ask = resolve))
      const told = new Promise<void>((resolve) => (tell = resolve))
      hosts[name] = async () => {
        ask()
        await told
        return [{ address: '127.0.0.1', port: behind, given: true }]
      }
      const accepted = takeConnection(t, server)
      const client = await dial(t, host, port)
      const head = Buffer.from(`CONNECT ${name}:443 HTTP/1.1\r\nHost: ${name}:443\r\n\r\n`)
      client.write(Buffer.concat([head, first]))
      // The proxy has read the CONNECT when it asks for the name, and the rest when it gets to know the address.
      await asked
      for (const piece of later) client.write(piece)
      if (later.length > 0) await pause(20)
      await new Promise(setImmediate)
      tell()
      const [upstream] = await Promise.all([accepted, readAnswer(client)])
      return { client, upstream }
    },
  }
}

/** Nothing but sockets and lanes. `isTied` as in a tunnel; otherwise the end of one near end is not the other one's. */
export async function openBareRelay(t: Test, { isTied = true } = {}): Promise<BareRelay> {
  const choice = chooseRelay(RELAY)
  const front = await listen()
  const nears: ((near: Socket) => void)[] = []
  const onConnection = (socket: Socket) => nears.shift()?.(own(t, socket))
  acceptFrom(front.server, choice, onConnection)
  t.teardown(() => front.server.close())
  // One after the other: who is accepted is who has just come.
  let before: Promise<unknown> = Promise.resolve()
  const open = async (): Promise<BareLine> => {
    const accepted = new Promise<Socket>((resolve) => nears.push(resolve))
    const client = await dial(t, '127.0.0.1', front.port)
    const nearClient = await accepted
    const { server, port } = await listen()
    const arrived = takeConnection(t, server)
    const nearUpstream = own(t, connectorOf(choice)('127.0.0.1', port))
    await new Promise((resolve) => nearUpstream.once('connect', resolve))
    if (isTied) new TiedSockets(nearClient, nearUpstream, 0, () => undefined).carry()
    else {
      startLane(nearClient, nearUpstream)
      startLane(nearUpstream, nearClient)
    }
    return {
      client,
      upstream: await arrived,
      near: { client: nearClient, upstream: nearUpstream },
    }
  }
  return {
    name: 'lanes',
    open() {
      const opened = before.then(open)
      before = opened.catch(() => undefined)
      return opened
    },
  }
}

/** One way of a relay by itself, which learns what becomes of its source. */
export function startLane(from: Socket, to: Socket): Lane {
  const lane = new Lane(from, to)
  giveTo(from, { onEnd: () => lane.end(), onClose: () => lane.close() })
  lane.start()
  return lane
}

async function listen(): Promise<{ readonly server: Server; readonly port: number }> {
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true, noDelay: true })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { server, port: (server.address() as AddressInfo).port }
}

/** The one connection that a server gets. */
function takeConnection(t: Test, server: Server): Promise<Socket> {
  return new Promise((resolve) =>
    server.once('connection', (socket) => {
      server.close()
      resolve(own(t, socket))
    }),
  )
}

async function dial(t: Test, host: string, port: number): Promise<Socket> {
  const socket = own(t, connect({ host, port, allowHalfOpen: true, noDelay: true }))
  await new Promise((resolve) => socket.once('connect', resolve))
  return socket
}

const owned = new WeakMap<Test, Set<Socket>>()

/** Sees to it that an error of a socket finds a listener, and that it is gone with the test. */
function own(t: Test, socket: Socket): Socket {
  let sockets = owned.get(t)
  if (!sockets) {
    const fresh = (sockets = new Set<Socket>())
    owned.set(t, fresh)
    t.teardown(() => {
      for (const one of fresh) one.destroy()
    })
  }
  const { size } = sockets.add(socket)
  if (size > 0) socket.once('close', () => owned.get(t)?.delete(socket))
  return socket.on('error', () => undefined)
}

/** Takes the answer to a CONNECT off a socket, and leaves what is behind it. */
function readAnswer(client: Socket): Promise<void> {
  return new Promise((resolve, reject) => {
    let bytes = Buffer.alloc(0)
    const fail = () => reject(new Error(`no tunnel: ${bytes.toString('latin1')}`))
    const onData = (more: Buffer) => {
      bytes = Buffer.concat([bytes, more])
      if (bytes.length < ESTABLISHED.length) return
      client.pause()
      client.removeListener('data', onData)
      client.removeListener('close', fail)
      client.removeListener('end', fail)
      const rest = bytes.subarray(ESTABLISHED.length)
      if (rest.length > 0) client.unshift(rest)
      if (bytes.toString('latin1').startsWith(ESTABLISHED)) resolve()
      else fail()
    }
    client.once('close', fail)
    client.once('end', fail)
    client.on('data', onData)
  })
}
