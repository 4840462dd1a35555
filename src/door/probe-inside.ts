import { readFileSync } from 'node:fs'
import { createSocket } from 'node:dgram'
import { BlockList, connect, isIPv6, type NetConnectOpts } from 'node:net'
import { DOOR_HOST, DOOR_PORT, NAMES_PORT } from './door.ts'
import type { DoorPlan } from './door-plan.ts'
import {
  answerProblem,
  NAMES_QUESTION,
  namesProblem,
  connectProblem,
  deviceProblem,
  PROBE_REQUEST,
  routeProblem,
} from './probe.ts'

// Runs inside a namespace, in the helper and in the relay: imports nothing but Node.js and pure functions.

/** How long the door may take to answer, in milliseconds. */
const ANSWER_MS = 5_000
/** How long a connect may take to fail. It fails at once where there is no way. */
const CONNECT_MS = 1_000
const MAX_ANSWER = 4_096
/** Addresses for documentation: nobody has them. They are tried only where no route leads anywhere. */
const OUTSIDE = ['192.0.2.1', '2001:db8::1']

/** Why the namespace of this process has a way out besides the door; undefined if it has none. */
export function wayOut(): string | undefined {
  return (
    deviceProblem(readFileSync('/proc/self/net/dev', 'utf8')) ??
    routeProblem(
      readFileSync('/proc/self/net/route', 'utf8'),
      readIfThere('/proc/self/net/ipv6_route'),
    )
  )
}

/** Why the door of this namespace is not the one way out; undefined if it is. */
export async function probeInside(
  plan: Pick<DoorPlan, 'stub' | 'routes'>,
): Promise<string | undefined> {
  const problem =
    wayOut() ??
    answerProblem(await ask(DOOR_HOST, DOOR_PORT)) ??
    namesProblem(await askNames(plan.stub))
  if (problem !== undefined) return problem
  const led = ledTo(plan)
  for (const address of OUTSIDE) {
    if (led.check(address, isIPv6(address) ? 'ipv6' : 'ipv4')) continue
    const found = connectProblem(address, await tryConnect(address))
    if (found !== undefined) return found
  }
  return undefined
}

function readIfThere(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return ''
    throw error
  }
}

/** What the door answers; empty if nothing. */
function ask(host: string, port: number): Promise<string> {
  return new Promise((resolve) => {
    let answer = ''
    const socket = connect({ host, port })
    socket.setTimeout(ANSWER_MS, () => socket.destroy())
    socket.on('error', () => undefined)
    socket.on('data', (chunk) => {
      answer += chunk.toString('latin1')
      if (answer.length > MAX_ANSWER) socket.destroy()
    })
    socket.on('close', () => resolve(answer))
    socket.write(PROBE_REQUEST)
  })
}

/** The addresses that lead to the door: a connect to one of them is no way out. */
function ledTo({ routes }: Pick<DoorPlan, 'routes'>): BlockList {
  const led = new BlockList()
  for (const { cidr, family } of routes) {
    const [address = '', bits = family === 4 ? '32' : '128'] = cidr.split('/')
    led.addSubnet(address, Number(bits), family === 4 ? 'ipv4' : 'ipv6')
  }
  return led
}

/** What the resolver answers; undefined if nothing. */
function askNames(stub: string): Promise<Buffer | undefined> {
  return new Promise((resolve) => {
    const socket = createSocket('udp4')
    const finish = (answer: Buffer | undefined) => {
      clearTimeout(timer)
      socket.close()
      resolve(answer)
    }
    const timer = setTimeout(() => finish(undefined), ANSWER_MS)
    socket.once('error', () => finish(undefined))
    socket.once('message', finish)
    socket.send(NAMES_QUESTION, NAMES_PORT, stub)
  })
}

/** The error that a connect ends with, or what it did instead. */
function tryConnect(host: string): Promise<string> {
  return new Promise((resolve) => {
    const options: NetConnectOpts = { host, port: 443 }
    const socket = connect(options)
    const finish = (outcome: string) => {
      socket.destroy()
      resolve(outcome)
    }
    socket.setTimeout(CONNECT_MS, () => finish('no answer'))
    socket.on('error', (error: NodeJS.ErrnoException) => finish(error.code ?? error.message))
    socket.on('connect', () => finish('it is connected'))
  })
}
