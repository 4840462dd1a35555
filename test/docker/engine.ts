import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import path from 'node:path'
import tap, { type Test } from 'tap'
import { NO_ENGINE, TEST_IMAGE } from '../support/docker.ts'
import { type Engine, startEngine } from '../support/engine.ts'
import {
  type CommandResult,
  type Desk,
  openDesk,
  type RunningCommand,
} from '../support/sandbox-run.ts'

// What becomes of a run whose engine stands still. The engine is the test's own.

const SKIP: string | false =
  NO_ENGINE || (process.getuid?.() === 0 ? false : 'only root can start an engine')

const PHASES = ['pull', 'create', 'door', 'post_create'] as const
const KNOB = (phase: string) => `ITERION_SANDBOX_${phase.toUpperCase()}_TIMEOUT`

/** The bound of the phase that is to expire, and of all others. */
function knobs(phase: string): Record<string, string> {
  return Object.fromEntries(PHASES.map((one) => [KNOB(one), one === phase ? '2s' : '60s']))
}

function writeWorkflow(desk: Desk): void {
  writeFileSync(
    path.join(desk.workspace, 'workflow.yaml'),
    `name: engine
sandbox: { image: "${TEST_IMAGE}", network: { rules: [allowed.test] }, post_create: "true" }
nodes: [{ id: n, command: "echo up; sleep 20" }]
`,
  )
}

/** Only the relay of this door is started by the engine. */
function door(phase: string): string[] {
  return phase === 'door' ? ['--door', 'sidecar'] : []
}

/**
 * How a command line ended while the engine stood still, and what then still waited for it. A hang is killed, which is no
 * ending that a test expects: the bound of the phase, and what the removal and the reaper wait for.
 */
async function endOf(
  { child, done }: RunningCommand,
  engine: Engine,
): Promise<CommandResult & { readonly waiting: readonly string[] }> {
  const guard = setTimeout(() => child.kill('SIGKILL'), 20_000)
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  clearTimeout(guard)
  const waiting = processesOf(engine)
  engine.goOn()
  return { ...(await done), waiting }
}

/** Everything is gone once the engine answers again. */
async function assertNothingLeft(t: Test, engine: Engine, desk: Desk): Promise<void> {
  const { code, stdout } = await desk.run(['reap', '--json'], {
    env: { DOCKER_HOST: engine.address, ITERION_SANDBOX_RUNTIME: 'docker' },
  })
  t.match({ code, ...JSON.parse(stdout) }, { code: 0, left_behind: [] })
  t.strictSame(await engine.containers(), [])
  t.strictSame(desk.leftovers(), [])
}

void tap.test('an engine of its own', { skip: SKIP, timeout: 200_000 }, async (t) => {
  const engine = await startEngine(t)

  for (const [subcommand, phase] of [
    ['image inspect', 'pull'],
    ['run -i', 'create'],
    ['run --detach', 'door'],
    ['exec --user=root', 'post_create'],
  ] as const) {
    await t.test(`that stands still in the phase ${phase}`, async (part) => {
      const desk = openDesk(part)
      writeWorkflow(desk)
      const running = desk.start(['run', ...door(phase), 'workflow.yaml'], {
        input: '',
        env: {
          DOCKER_HOST: engine.address,
          PATH: `${engine.metBy('STOP', subcommand)}:${process.env['PATH']}`,
          ...knobs(phase),
        },
      })
      const { code, stderr, waiting } = await endOf(running, engine)
      part.equal(code, 125, stderr)
      part.match(stderr, new RegExp(`SANDBOX_SETUP_TIMEOUT.*phase ${phase} .*${KNOB(phase)}`))
      part.match(desk.record(), {
        status: 'failed_resumable',
        failure_code: 'SANDBOX_SETUP_TIMEOUT',
      })
      const [stopped] = desk.eventsOf('sandbox_stopped')
      part.match(stopped, { status: 'failed_resumable' })
      const { id } = desk.record()
      if (phase !== 'pull')
        part.match(stderr, new RegExp(`left behind: iterion-${id}; reap removes it`))
      part.strictSame(stopped?.left_behind, phase === 'pull' ? [] : [`iterion-${id}`])
      part.strictSame(waiting, [], 'no command line waits for it')
      await assertNothingLeft(part, engine, desk)
    })
  }

  await t.test('that stands still under a command: two signals end it', async (part) => {
    const desk = openDesk(part)
    writeWorkflow(desk)
    const running = desk.start(['run', 'workflow.yaml'], { env: { DOCKER_HOST: engine.address } })
    await running.hears('up')
    process.kill(engine.pid, 'SIGSTOP')
    running.child.kill('SIGINT')
    await new Promise((resolve) => setTimeout(resolve, 100))
    running.child.kill('SIGINT')
    const { code } = await endOf(running, engine)
    part.equal(code, 130)
    part.match(desk.record(), { status: 'cancelled' })
    await assertNothingLeft(part, engine, desk)
  })

  await t.test('that stands still: reap says so', async (part) => {
    const desk = openDesk(part)
    process.kill(engine.pid, 'SIGSTOP')
    const running = desk.start(['reap'], {
      input: '',
      env: { DOCKER_HOST: engine.address, ITERION_SANDBOX_RUNTIME: 'docker' },
    })
    const { code, stderr } = await endOf(running, engine)
    part.not(code, 0, stderr)
    part.match(stderr, /docker engine does not answer/)
  })
})

void tap.test('a pull that hangs is ended at its bound', { skip: NO_ENGINE }, async (t) => {
  const desk = openDesk(t)
  const registry = createServer((socket) => socket.on('error', () => undefined))
  await new Promise<void>((resolve) => registry.listen(0, '127.0.0.1', resolve))
  t.teardown(() => registry.close())
  const image = `127.0.0.1:${(registry.address() as { port: number }).port}/never:1`
  const { code, stderr } = await desk.run(['run', '--image', image, '--', 'true'], {
    env: { ITERION_SANDBOX_PULL_TIMEOUT: '1s' },
  })
  t.equal(code, 125)
  t.match(stderr, /SANDBOX_SETUP_TIMEOUT.*ITERION_SANDBOX_PULL_TIMEOUT/)
  t.match(desk.record(), { status: 'failed_resumable', failure_code: 'SANDBOX_SETUP_TIMEOUT' })
  t.strictSame(desk.eventsOf('sandbox_setup_timeout'), [
    { phase: 'pull', knob: 'ITERION_SANDBOX_PULL_TIMEOUT', bound_ms: 1000 },
  ])
  t.strictSame(processesWith('cmdline', image), [])
})

/** The command lines of docker that talk to an engine. */
function processesOf({ address }: Engine): string[] {
  return processesWith('environ', `DOCKER_HOST=${address}`)
}

/** The processes of this machine in whose arguments or environment a text is. */
function processesWith(file: 'cmdline' | 'environ', text: string): string[] {
  return readdirSync('/proc').flatMap((pid) => {
    try {
      if (!/^\d+$/.test(pid) || !readFileSync(`/proc/${pid}/${file}`, 'latin1').includes(text))
        return []
      return [readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' ')]
    } catch {
      return []
    }
  })
}
