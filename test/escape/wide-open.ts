import tap from 'tap'
import { docker, NO_ENGINE, TEST_IMAGE, uniqueName } from '../support/docker.ts'
import {
  attemptOf,
  attemptsOf,
  factsOf,
  startNeighbour,
  writeInside,
} from '../support/escape/battery.ts'
import { startCarelessProxy } from '../support/escape/careless-proxy.ts'
import { hostWords, startHostSide, startWorld } from '../support/escape/far-side.ts'
import { assertLoose, triedIn } from '../support/escape/loose.ts'
import { TECHNIQUES, WELCOMED } from '../support/escape/techniques.ts'
import { openDesk } from '../support/sandbox-run.ts'

// The other half of the proof: what an advisory run keeps in as well gets out of a container with every right and a
// proxy that decides nothing. So a technique that is quiet in a sealed run is quiet because of the seal.

/** Not `--privileged`: an engine that has not every capability itself cannot give it. */
const EVERY_RIGHT = [
  ...['SYS_ADMIN', 'SYS_PTRACE', 'SYS_RAWIO', 'SYSLOG', 'NET_ADMIN', 'DAC_READ_SEARCH'].map(
    (capability) => `--cap-add=${capability}`,
  ),
  ...['seccomp', 'apparmor', 'systempaths'].map((guard) => `--security-opt=${guard}=unconfined`),
  '--device-cgroup-rule=a *:* rwm',
  ...['/dev', '/sys', '/var/run/docker.sock'].map((one) => `--volume=${one}:${one}`),
]

const SKIP = NO_ENGINE || (process.getuid?.() === 0 ? false : 'root is who can do the most harm')

tap.setTimeout(240_000)

void tap.test('a container with every right keeps nobody in', { skip: SKIP }, async (t) => {
  const world = await startWorld(t)
  const desk = openDesk(t)
  const host = await startHostSide(t, desk.folder, world)
  const neighbour = await startNeighbour(t, desk, world)
  const techniques = triedIn('open', TECHNIQUES)
  const facts = factsOf({ world, host, desk, neighbour: neighbour.id, isSealed: false })
  writeInside(desk, { world, techniques }, facts, false)

  // It shares the network of another container that listens as the host does: so changes of its network stay there.
  const [stage, name] = [uniqueName('stage'), uniqueName('open')]
  t.teardown(() => docker('rm', '-f', '-v', stage, name).catch(() => undefined))
  const {
    HOST_PORT: port,
    LOOPBACK_PORT: loopbackPort,
    UDP_PORT: udpPort,
    ABSTRACT: abstract,
  } = facts
  const words = hostWords({ port, loopbackPort, udpPort, abstract, socket: '-', mark: world.mark })
  await docker(
    'run',
    '-d',
    '--rm',
    '--name',
    stage,
    '--network',
    world.network,
    TEST_IMAGE,
    'node',
    ...words,
  )
  await docker('network', 'connect', 'bridge', stage)
  const proxy = `http://${world.bridge}:${await startCarelessProxy(t, world)}`
  const options = ['--pid=host', `--network=container:${stage}`, '--workdir', desk.workspace]
  const env = ['-e', `http_proxy=${proxy}`, '-e', `https_proxy=${proxy}`]
  const here = ['--rm', '--name', name, ...options, ...env, ...EVERY_RIGHT]
  const volume = `--volume=${desk.folder}:${desk.folder}`
  const stdout = await docker('run', ...here, volume, TEST_IMAGE, 'node', 'inside.mjs')
  const all = attemptsOf(stdout)
  t.strictSame(
    WELCOMED.map(({ name: one }) => attemptOf(all, one).text),
    ['welcome\n', 'welcome\n'],
  )
  assertLoose(
    t,
    'open',
    techniques,
    techniques.map((one) => attemptOf(all, one.name)),
  )
  // The abstract socket was that of the other container.
  const heard = new Set(await host.contacts())
  t.strictSame([...heard].toSorted(), ['loopback', 'signal', 'tcp', 'udp', 'unix'])
})

void tap.test('every technique gets out somewhere, or says why it cannot', (t) => {
  const names = TECHNIQUES.map(({ name }) => name)
  t.equal(new Set(names).size, names.length, 'the names are unique')
  const nowhere = TECHNIQUES.filter(
    (one) => ![one.advisory, one.open, one.careless].includes('out'),
  )
  // Half of them ask the resolver of a door for what no policy gives, or for its own port.
  t.ok(nowhere.length * 5 < names.length, `only ${nowhere.length} get out nowhere`)
  t.end()
})
