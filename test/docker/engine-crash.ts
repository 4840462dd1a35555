import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import tap, { type Test } from 'tap'
import { NO_ENGINE, TEST_IMAGE } from '../support/docker.ts'
import { type Crash, type Engine, startEngine } from '../support/engine.ts'
import { lookAt, lookUntil, settled, tracesOf, remaining } from '../support/engine-traces.ts'
import { makeRepository } from '../support/git-repository.ts'
import { type Desk, openDesk, type RunningCommand } from '../support/sandbox-run.ts'

// What is left of a run whose engine crashed, once the engine is there again and the reaper was called. The engine is the
// test's own.

const SKIP: string | false =
  NO_ENGINE || (process.getuid?.() === 0 ? false : 'only root can start an engine')

/** An image with anonymous volumes, and one more where the workspace is bound. */
const IMAGE = 'volumes:latest'
const VOLUMES = ['/volume/', '/o,d d', '/workspace']

/** How long a run may go on after its engine has crashed, in milliseconds. */
const LOST_BOUND_MS = 8_000

const NETWORKS = {
  sealed: '{ rules: [allowed.test] }',
  open: 'open',
} as const

void tap.test(
  'an engine that crashes under a command',
  { skip: SKIP, timeout: 200_000 },
  async (t) => {
    const engine = await startEngine(t)
    const made = await engine.docker('create', TEST_IMAGE, 'true')
    await engine.docker('commit', '--change', `VOLUME ${JSON.stringify(VOLUMES)}`, made, IMAGE)
    await engine.docker('rm', made)

    for (const crash of ['engine', 'engine, containerd and shims'] as const) {
      for (const network of ['sealed', 'open'] as const) {
        await t.test(`${crash}, network ${network}: the run ends, reap removes the rest`, (part) =>
          runMeetsCrash(part, engine, crash, network),
        )
        await t.test(
          `${crash}, network ${network}, and the run is killed: reap removes all`,
          (part) => runDiesInCrash(part, engine, crash, network),
        )
      }
    }

    for (const [phase, subcommand, code] of [
      ['pull', 'image inspect', 'SANDBOX_ENGINE_UNREACHABLE'],
      ['create', 'run -i', 'SANDBOX_ENGINE_UNREACHABLE'],
      ['door', 'run --detach', 'SANDBOX_DOOR_FAILED'],
      ['post_create', 'exec --user=root', 'SANDBOX_LOST'],
    ] as const) {
      await t.test(`in the phase ${phase}: the run ends, reap removes the rest`, (part) =>
        phaseMeetsCrash(part, engine, [phase, subcommand, code]),
      )
    }

    await t.test('what works on after the run is looked after when it has ended', (part) =>
      plantsLater(part, engine),
    )
  },
)

/** The run is there when its engine crashes. */
async function runMeetsCrash(
  t: Test,
  engine: Engine,
  crash: Crash,
  network: keyof typeof NETWORKS,
) {
  const before = await lookAt(engine)
  const desk = openDesk(t)
  const running = await startRun(desk, engine, network)
  const traces = await tracesOf(engine, desk.record().container, crash)
  const { volumes } = await lookAt(engine)
  t.equal(volumes?.length, 2)
  t.match(desk.eventsOf('sandbox_started'), [{ door: network === 'sealed' ? 'netns' : 'none' }])
  t.ok(traces.namespaces.length >= 4)
  t.equal(traces.shimSockets.length, crash === 'engine' ? 1 : 0)
  t.not((await remaining(traces)).length, 0)

  const crashedAt = Date.now()
  await engine.crash(crash)
  const { code, stderr } = await endOf(running)
  t.ok(Date.now() - crashedAt < LOST_BOUND_MS, 'in time')
  const { id, ...record } = desk.record()
  t.equal(code, 125, stderr)
  t.match(stderr, `[SANDBOX_LOST]`)
  t.match(stderr, `left behind: iterion-${id}; reap removes it`)
  t.match(record, { status: 'failed_resumable', failure_code: 'SANDBOX_LOST' })
  t.match(desk.eventsOf('sandbox_stopped'), [
    { status: 'failed_resumable', left_behind: [`iterion-${id}`] },
  ])
  const log = readFileSync(`${desk.iterionHome}/runs/${id}/events.jsonl`, 'utf8')
  t.equal(log.at(-1), '\n', 'the last line is whole')

  await engine.start()
  t.match(await reap(desk, engine), { code: 0, left_behind: [], git_metadata: [] })
  t.strictSame(await lookUntil(engine, before), before)
  t.strictSame(await settled(traces), [])
  t.strictSame(desk.leftovers(), [])
  t.match(await reap(desk, engine), { code: 0, containers: [], runs: [] }, 'nothing is left to do')
}

/** The engine crashes before the first call of a phase. */
async function phaseMeetsCrash(
  t: Test,
  engine: Engine,
  [phase, subcommand, failure]: readonly [string, string, string],
) {
  const before = await lookAt(engine)
  const desk = openDesk(t)
  writeWorkflow(desk, 'sealed')
  const door = phase === 'door' ? ['--door', 'sidecar'] : []
  const startedAt = Date.now()
  const { code, stderr } = await endOf(
    desk.start(['run', ...door, 'workflow.yaml'], {
      input: '',
      env: {
        ...environment(engine),
        PATH: `${engine.metBy('KILL', subcommand)}:${process.env['PATH']}`,
      },
    }),
  )
  t.ok(Date.now() - startedAt < LOST_BOUND_MS, 'in time')
  t.equal(code, 125, stderr)
  t.match(desk.record(), { status: 'failed_resumable', failure_code: failure })
  if (phase === 'create') t.notMatch(stderr, '--help')
  const left = phase === 'pull' ? [] : [`iterion-${desk.record().id}`]
  t.strictSame(desk.eventsOf('sandbox_stopped')[0]?.left_behind, left)

  // It was killed by somebody else: its containerd is yet to end.
  await engine.crash()
  await engine.start()
  t.match(await reap(desk, engine), { code: 0, left_behind: [], git_metadata: [] })
  t.strictSame(await lookUntil(engine, before), before)
  t.strictSame(desk.leftovers(), [])
}

/** The run is killed while its engine is dead, before it could do anything about it. */
async function runDiesInCrash(
  t: Test,
  engine: Engine,
  crash: Crash,
  network: keyof typeof NETWORKS,
) {
  const before = await lookAt(engine)
  const desk = openDesk(t)
  const { child, done } = await startRun(desk, engine, network)
  const traces = await tracesOf(engine, desk.record().container, crash)
  child.kill('SIGSTOP')
  await engine.crash(crash)
  child.kill('SIGKILL')
  await done
  t.match(desk.record(), { status: 'running' })
  t.not(desk.leftovers().length, 0)

  await engine.start()
  t.match(await reap(desk, engine), { code: 0, runs: [desk.record().id], left_behind: [] })
  t.match(desk.record(), { status: 'failed_resumable', failure_code: 'RUN_ORPHANED' })
  t.strictSame(await lookUntil(engine, before), before)
  t.strictSame(await settled(traces), [])
  t.strictSame(desk.leftovers(), [])
  t.match(await reap(desk, engine), { code: 0, containers: [], runs: [] }, 'nothing is left to do')
}

/** The container works on while engine and run are dead: it is too early to look after its workspace. */
async function plantsLater(t: Test, engine: Engine) {
  const desk = openDesk(t)
  makeRepository(desk.workspace)
  const later = path.join(desk.workspace, '.git/commondir')
  const { child, done } = await startRun(
    desk,
    engine,
    'sealed',
    'until [ -e go ]; do sleep 0.1; done; echo /tmp/elsewhere > .git/commondir; sleep 60',
  )
  const { container } = await tracesOf(engine, desk.record().container, 'engine')
  child.kill('SIGSTOP')
  await engine.crash()
  child.kill('SIGKILL')
  await done

  const early = await reap(desk, engine)
  t.match(early, { code: 4, runs: [], left_behind: [container], git_metadata: [] })
  t.match(early.stderr, 'docker engine does not answer')
  writeFileSync(path.join(desk.workspace, 'go'), '')
  for (let tries = 0; tries < 50 && !existsSync(later); tries++) await pause()
  t.ok(existsSync(later), 'it works on')

  await engine.start()
  const { id } = desk.record()
  t.match(await reap(desk, engine), { code: 0, runs: [id], git_metadata: [{ run: id }] })
  t.notOk(existsSync(later))
  t.strictSame(desk.leftovers(), [])
}

function writeWorkflow(desk: Desk, network: keyof typeof NETWORKS, command = 'sleep 60'): void {
  const text = `name: crash
sandbox:
  image: "${IMAGE}"
  workspace_folder: /workspace
  network: ${NETWORKS[network]}
  post_create: "true"
nodes: [{ id: n, command: ${JSON.stringify(`echo up; ${command}`)} }]
`
  writeFileSync(path.join(desk.workspace, 'workflow.yaml'), text)
}

/** Starts a run and waits until its command runs. */
async function startRun(
  desk: Desk,
  engine: Engine,
  ...workflow: [network: keyof typeof NETWORKS, command?: string]
): Promise<RunningCommand> {
  writeWorkflow(desk, ...workflow)
  const running = desk.start(['run', 'workflow.yaml'], { input: '', env: environment(engine) })
  await running.hears('up')
  return running
}

/** A hang is killed, which is no ending that a test expects. */
async function endOf({ child, done }: RunningCommand) {
  const guard = setTimeout(() => child.kill('SIGKILL'), 20_000)
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  clearTimeout(guard)
  return done
}

async function reap(desk: Desk, engine: Engine) {
  const { code, stdout, stderr } = await desk.run(['reap', '--json'], { env: environment(engine) })
  return { code, stderr, ...(JSON.parse(stdout) as object) }
}

function environment({ address }: Engine): Record<string, string> {
  return { DOCKER_HOST: address, ITERION_SANDBOX_RUNTIME: 'docker' }
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 100))
}
