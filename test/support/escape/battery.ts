import { spawnSync } from 'node:child_process'
import {
  chownSync,
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import type { Test } from 'tap'
import type { EventData } from '../../../src/events/event.ts'
import type { RunRecord } from '../../../src/sandbox/run-record.ts'
import { PROJECT_IMAGE, TEST_IMAGE } from '../docker.ts'
import { type Caller, type Desk, type EventRecord, openDesk } from '../sandbox-run.ts'
import { type HostSide, startHostSide, type World } from './far-side.ts'
import { FILES } from './file-techniques.ts'
import type { Facts, Technique } from './technique.ts'
import { commandOf, WELCOMED, WELCOMED_UNAWARE } from './techniques.ts'
import { DISTURBING } from './unaware-techniques.ts'

/** The program with a resolver of the test. */
export const PROGRAM = path.join(import.meta.dirname, 'with-resolver.js')
const INSIDE = path.join(import.meta.dirname, 'inside.js')

/** What one technique came to. */
export interface Attempt {
  readonly name: string
  readonly out: boolean
  readonly text: string
}

/** Where a battery is run. */
export interface BatteryPlace {
  readonly world: World
  readonly door: 'netns' | 'sidecar' | 'advisory'
  /** Who calls the program; undefined: this process's own user. */
  readonly caller?: Caller
  /** `user:` of the workflow. */
  readonly user?: string
  /** `host_state:` of the workflow. */
  readonly hostState?: 'auto'
  readonly techniques: readonly Technique[]
  /** The policy, as YAML on one line. Default: the allowed name, and those that lead inside. */
  readonly network?: string
  /** More variables for the program, such as those that choose another engine. */
  readonly env?: Readonly<Record<string, string>>
  /** More words for `run`. */
  readonly args?: readonly string[]
  /** Looks at the run when all has been tried, and before it ends. */
  readonly whileItRuns?: (blocked: readonly EventData<'network_blocked'>[]) => void
}

/** A battery that was run. */
export interface Battery {
  /** The event log of the run, as it is in the end. */
  readonly events: string
  readonly attempts: readonly Attempt[]
  /** What the allowed target answered. */
  readonly welcomed: readonly Attempt[]
  /** What the far sides heard meanwhile. */
  readonly outside: readonly string[]
  readonly host: readonly string[]
  /** The names that were looked up. */
  readonly lookups: readonly string[]
  /** The record and the events of the neighbour before and after. */
  readonly neighbour: { readonly before: string; readonly after: string }
  /** What git on this machine obeys in the workspace. */
  readonly git: { readonly before: string; readonly after: string }
}

/** A user without rights besides those of the group docker. Made if there is none; it stays. */
export function ordinaryUser(): Caller {
  const name = 'iterion-egress-test'
  const id = (flag: string) => spawnSync('id', [flag, name], { encoding: 'utf8' }).stdout.trim()
  if (id('-u') === '') spawnSync('/usr/sbin/useradd', ['-M', '-G', 'docker', name])
  return { uid: Number(id('-u')), gid: Number(id('-g')) }
}

/** Runs all techniques in one run, beside a run of somebody else. */
export async function runBattery(t: Test, place: BatteryPlace): Promise<Battery> {
  const { world, caller, techniques } = place
  const desk = openDesk(t, caller)
  const host = await startHostSide(t, desk.folder, world)
  const neighbour = await startNeighbour(t, desk, world, place.env)
  const before = neighbour.files()
  const heard = (await world.contacts()).length
  const isSealed = place.door !== 'advisory'
  writePlan(desk, place, factsOf({ world, host, desk, neighbour: neighbour.id, isSealed }))
  if (caller) spawnSync('chown', ['-R', `${caller.uid}:${caller.gid}`, desk.workspace])
  const gitBefore = gitFiles(desk)
  const lookups = path.join(desk.folder, 'lookups')
  writeFileSync(lookups, '')
  if (caller) chownSync(lookups, caller.uid, caller.gid)
  const args = ['--door', place.door, '--sidecar-image', PROJECT_IMAGE]
  const resolve = ['--resolve', `allowed.test:${world.address}`]
  const running = desk.start(['run', ...args, ...resolve, ...(place.args ?? []), 'workflow.yaml'], {
    program: PROGRAM,
    env: { ...place.env, NAMES: JSON.stringify(namesOf(world)), LOOKUPS: lookups },
  })
  await running.hears('tried')
  const events = path.join(desk.iterionHome, 'runs', runNamed(desk, 'battery'), 'events.jsonl')
  place.whileItRuns?.(blockedIn(readFileSync(events, 'utf8')))
  writeFileSync(path.join(desk.workspace, 'seen'), '')
  const { code, stdout, stderr } = await running.done
  t.equal(code, 0, stderr)
  const all = attemptsOf(stdout)
  const after = neighbour.files()
  await neighbour.end()
  return {
    events: readFileSync(events, 'utf8'),
    attempts: techniques.map(({ name }) => attemptOf(all, name)),
    welcomed: [...WELCOMED, ...(isSealed ? WELCOMED_UNAWARE : [])].map(({ name }) =>
      attemptOf(all, name),
    ),
    outside: (await world.contacts()).slice(heard),
    host: await host.contacts(),
    lookups: readFileSync(lookups, 'utf8').split('\n').slice(0, -1),
    neighbour: { before, after },
    git: { before: gitBefore, after: gitFiles(desk) },
  }
}

/** The id of the run of a workflow: two runs that start in one second are in no order. */
function runNamed({ iterionHome }: Desk, name: string): string {
  const runs = path.join(iterionHome, 'runs')
  const recordOf = (id: string) =>
    JSON.parse(readFileSync(path.join(runs, id, 'run.json'), 'utf8')) as RunRecord
  const found = readdirSync(runs).find((id) => !id.startsWith('.') && recordOf(id).name === name)
  if (found === undefined) throw new Error(`there is no run of ${name}`)
  return found
}

/** The files of a repository that make git run something: their names, and what is in the settings. */
function gitFiles({ workspace }: Desk): string {
  const folder = path.join(workspace, '.git')
  const names = readdirSync(path.join(folder, 'hooks')).toSorted()
  return [...names, readFileSync(path.join(folder, 'config'), 'utf8')].join('\n')
}

/** What an event log says was blocked. */
export function blockedIn(events: string): EventData<'network_blocked'>[] {
  return events
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as EventRecord)
    .flatMap(({ type, data }) =>
      type === 'network_blocked' ? [data as EventData<'network_blocked'>] : [],
    )
}

/** The names that lead inside, allowed as they are. */
export function namesOf({ bridge }: World): Record<string, string> {
  return {
    'loopback.inside.test': '127.0.0.1',
    'bridge.inside.test': bridge,
    'private.inside.test': '10.1.2.3',
    'metadata.inside.test': '169.254.169.254',
  }
}

/** The facts of a run. What is no host of the test is named only where no way leads to it. */
export function factsOf(known: {
  readonly world: World
  readonly host: HostSide
  readonly desk: Desk
  readonly neighbour: string
  readonly isSealed: boolean
}): Facts {
  const { world, host, desk, isSealed } = known
  return {
    ...host.facts,
    OUTSIDE: world.address,
    OUTSIDE6: world.address6,
    BRIDGE: world.bridge,
    GATEWAY: world.gateway,
    METADATA: isSealed ? '169.254.169.254' : world.address,
    METADATA6: isSealed ? 'fd00:ec2::254' : world.address6,
    NAMESERVER: isSealed ? '192.0.2.53' : world.address,
    ITERION_HOME: desk.iterionHome,
    OTHER_RUN: known.neighbour,
    DESK: desk.folder,
  }
}

const NETWORK = '{ rules: [allowed.test, "**.inside.test:*"] }'

/** Writes what runs inside, and the workflow that runs it. */
function writePlan(desk: Desk, place: BatteryPlace, facts: Facts): void {
  writeInside(desk, place, facts, place.whileItRuns !== undefined)
  const user = place.user === undefined ? '' : `  user: "${place.user}"\n`
  const workflow = `name: battery
sandbox:
  image: ${TEST_IMAGE}
  host_state: ${place.hostState ?? 'none'}
${user}  network: ${place.network ?? NETWORK}
nodes: [{ id: all, command: [node, inside.mjs] }]
`
  writeFileSync(path.join(desk.workspace, 'workflow.yaml'), workflow)
}

/** Writes the program for inside, its plan and the certificate into the workspace, for every user to read. */
export function writeInside(
  desk: Desk,
  { world, techniques }: Pick<BatteryPlace, 'world' | 'techniques'>,
  facts: Facts,
  waits: boolean,
): void {
  const isFile = new Set(FILES)
  const isLast = new Set(DISTURBING)
  const isSealed = facts.METADATA !== world.address
  const welcomed = isSealed ? [...WELCOMED, ...WELCOMED_UNAWARE] : WELCOMED
  const commands = (list: readonly Pick<Technique, 'name' | 'by' | 'script'>[]) =>
    Object.fromEntries(list.map((one) => [one.name, commandOf(one)]))
  const plan = {
    facts,
    mark: world.mark,
    waits,
    commands: commands([
      ...welcomed,
      ...techniques.filter((one) => !isFile.has(one) && !isLast.has(one)),
    ]),
    // They get into each other's way.
    inOrder: commands(techniques.filter((one) => isFile.has(one))),
    last: commands(techniques.filter((one) => isLast.has(one))),
  }
  spawnSync('git', ['init', '-q', desk.workspace])
  writeFileSync(path.join(desk.workspace, 'plan.json'), JSON.stringify(plan))
  writeFileSync(path.join(desk.workspace, 'ca.pem'), world.certificate)
  copyFileSync(INSIDE, path.join(desk.workspace, 'inside.mjs'))
  // Whatever keeps a user from a file, it is not its mode.
  spawnSync('chmod', ['-R', 'a+rwX', desk.workspace])
}

/** The lines that the program for inside printed. */
export function attemptsOf(stdout: string): Attempt[] {
  const lines = stdout.split('\n').filter((line) => line.startsWith('{'))
  return lines.map((line) => JSON.parse(line) as Attempt)
}

/** What came of one technique. That it was tried is part of it. */
export function attemptOf(all: readonly Attempt[], name: string): Attempt {
  const found = all.find((one) => one.name === name)
  if (found === undefined) throw new Error(`"${name}" was never tried`)
  return found
}

/** A run of the same caller beside the battery, with a secret that holds the mark. */
export async function startNeighbour(
  t: Test,
  desk: Desk,
  world: World,
  env: BatteryPlace['env'] = {},
) {
  const workflow = `name: neighbour
sandbox: { image: ${TEST_IMAGE}, workspace_folder: /neighbour }
secrets: [{ name: TOKEN, as: file, from: { env: NEIGHBOUR_TOKEN } }]
nodes: [{ id: only, command: "echo up; sleep 120" }]
`
  const file = path.join(desk.folder, 'neighbour.yaml')
  writeFileSync(file, workflow)
  const running = desk.start(['run', file], {
    env: { ...env, NEIGHBOUR_TOKEN: world.mark },
  })
  const end = async () => {
    running.child.kill('SIGTERM')
    await running.done
  }
  t.teardown(end)
  await running.hears('up')
  const id = runNamed(desk, 'neighbour')
  const folder = path.join(desk.iterionHome, 'runs', id)
  return {
    id,
    end,
    files: () =>
      ['run.json', 'events.jsonl', 'planted']
        .map((name) => path.join(folder, name))
        .map((one) => (existsSync(one) ? readFileSync(one, 'utf8') : ''))
        .join('\n'),
  }
}
