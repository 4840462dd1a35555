import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import path from 'node:path'
import type { Test } from 'tap'
import { closedPort } from '../black-hole.ts'
import { makeCertificate } from '../certificate.ts'
import { docker, TEST_IMAGE, uniqueName } from '../docker.ts'
import type { Facts } from './technique.ts'

/** A side that hears who comes. */
export interface FarSide {
  /** Every contact so far, a line each. */
  contacts(): Promise<string[]>
}

/** The outside world of a battery: a container on a network of its own, and on the engine's default bridge besides. */
export interface World extends FarSide {
  /** What only far sides know. */
  readonly mark: string
  readonly network: string
  /** Its address on the default bridge, and those on its own network. */
  readonly address: string
  readonly address6: string
  /** This machine's addresses on the two bridges. */
  readonly bridge: string
  readonly gateway: string
  readonly certificate: string
}

/** What this machine listens on, and the process that does. */
export interface HostSide extends FarSide {
  readonly pid: number
  readonly isAlive: () => boolean
  readonly facts: Pick<
    Facts,
    | 'HOST'
    | 'HOST_PORT'
    | 'LOOPBACK_PORT'
    | 'UDP_PORT'
    | 'ABSTRACT'
    | 'UNIX_PATH'
    | 'SECRET_FILE'
    | 'PROCESS'
  >
}

const program = (name: string) => readFileSync(path.join(import.meta.dirname, name), 'utf8')

/** The lines of a container's log behind `ready`, for which it waits. */
async function untilReady(log: () => Promise<string>): Promise<FarSide> {
  const lines = async () => (await log()).split('\n').filter((line) => line !== '')
  while (!(await lines()).includes('ready')) await new Promise((resolve) => setTimeout(resolve, 20))
  return { contacts: async () => (await lines()).filter((line) => line !== 'ready') }
}

/** Starts the outside world. */
export async function startWorld(t: Test): Promise<World> {
  const mark = `far-side-${randomBytes(8).toString('hex')}`
  const { key, cert } = makeCertificate('allowed.test', 'denied.test')
  const [network, name] = [uniqueName('world'), uniqueName('world')]
  t.teardown(async () => {
    await docker('rm', '-f', '-v', name).catch(() => undefined)
    await docker('network', 'rm', network).catch(() => undefined)
  })
  const subnet = `fd${randomBytes(1).toString('hex')}:${randomBytes(2).toString('hex')}:77::/64`
  await docker('network', 'create', '--ipv6', '--subnet', subnet, network)
  const env = Object.entries({ MARK: mark, KEY: key, CERT: cert }).flatMap(([one, value]) => [
    '-e',
    `${one}=${value}`,
  ])
  const command = ['node', '-e', program('outside-program.js')]
  await docker(
    'run',
    '-d',
    '--rm',
    '--name',
    name,
    '--network',
    network,
    ...env,
    TEST_IMAGE,
    ...command,
  )
  await docker('network', 'connect', 'bridge', name)
  const side = await untilReady(() => docker('logs', name))
  const of = (one: string, field: string) =>
    docker('inspect', '-f', `{{(index .NetworkSettings.Networks "${one}").${field}}}`, name)
  return {
    ...side,
    mark,
    network,
    address: await of('bridge', 'IPAddress'),
    address6: await of(network, 'GlobalIPv6Address'),
    bridge: await of('bridge', 'Gateway'),
    gateway: await of(network, 'Gateway'),
    certificate: cert,
  }
}

/** Starts the program that stands for everything on this machine, with its files in a folder. */
export async function startHostSide(
  t: Test,
  folder: string,
  world: Pick<World, 'mark' | 'bridge'>,
): Promise<HostSide> {
  const [port, loopbackPort, udpPort] = [await closedPort(), await closedPort(), await closedPort()]
  const abstract = `escape-${randomBytes(6).toString('hex')}`
  const socket = path.join(folder, 'host.sock')
  const secret = path.join(folder, 'host-secret')
  writeFileSync(secret, `${world.mark}\n`)
  const words = hostWords({ port, loopbackPort, udpPort, abstract, socket, mark: world.mark })
  const child = spawn(process.execPath, words, {
    env: { ESCAPE_SECRET: world.mark },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(async () => {
    child.kill('SIGKILL')
    if (child.exitCode === null && child.signalCode === null) await once(child, 'close')
  })
  let text = ''
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
  const side = await untilReady(async () => text)
  return {
    ...side,
    pid: child.pid ?? 0,
    isAlive: () => child.exitCode === null && child.signalCode === null,
    facts: {
      HOST: addressOffBridges(world),
      HOST_PORT: String(port),
      LOOPBACK_PORT: String(loopbackPort),
      UDP_PORT: String(udpPort),
      ABSTRACT: abstract,
      UNIX_PATH: socket,
      SECRET_FILE: secret,
      PROCESS: String(child.pid),
    },
  }
}

interface HostPlace {
  readonly port: number | string
  readonly loopbackPort: number | string
  readonly udpPort: number | string
  readonly abstract: string
  /** `-`: none. */
  readonly socket: string
  readonly mark: string
}

/** The words behind `node` that start such a program. */
export function hostWords(place: HostPlace): string[] {
  const { port, loopbackPort, udpPort, abstract, socket, mark } = place
  const words = [port, loopbackPort, udpPort, abstract, socket, mark].map(String)
  return ['-e', program('host-program.js'), 'host-program', ...words]
}

/** An address of this machine that is on no bridge of the engine; if there is none, that of the default bridge. */
function addressOffBridges({ bridge }: Pick<World, 'bridge'>): string {
  const found = Object.entries(networkInterfaces())
    .filter(([name]) => !/^(?:lo|docker|br-|veth)/.test(name))
    .flatMap(([, addresses = []]) => addresses)
    .find(({ family }) => family === 'IPv4')
  return found?.address ?? bridge
}
