import { writeFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { systemIo } from '../../src/cli/system-io.ts'
import { RUN_LABEL } from '../../src/sandbox/labels.ts'
import { RunControl } from '../../src/sandbox/run-control.ts'
import { runWorkflow } from '../../src/sandbox/run-workflow.ts'
import { docker, NO_ENGINE, TEST_IMAGE } from '../support/docker.ts'
import { openDesk } from '../support/sandbox-run.ts'
import { NO_FLAGS } from '../support/run-store.ts'

void tap.test(
  'a floor goes before the flag, and says what it shadowed',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    const env = { ITERION_SANDBOX_FLOOR: 'auto', ITERION_SANDBOX_DEFAULT_IMAGE: TEST_IMAGE }
    const { code, stdout } = await desk.run(
      ['run', '--sandbox', 'none', '--', 'cat', '/proc/1/comm'],
      { env },
    )
    t.match({ code, stdout }, { code: 0, stdout: 'docker-init\n' })
    t.strictSame(desk.eventsOf('sandbox_floor_applied'), [
      { floor: 'ITERION_SANDBOX_FLOOR=auto', shadowed: ['--sandbox none'] },
    ])
    for (const variable of [
      'ITERION_SANDBOX_FLOOR',
      'ITERION_SANDBOX_OVERRIDE',
      'ITERION_SANDBOX_DEFAULT',
    ]) {
      const bad = await desk.run(['run', '--image', TEST_IMAGE, '--', 'true'], {
        env: { [variable]: 'open' },
      })
      t.equal(bad.code, 125)
      t.match(bad.stderr, `${variable}="open"`)
    }
  },
)

void tap.test(
  'a repository that chose the sandbox gets the default policy',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    const file = path.join(desk.workspace, 'workflow.yaml')
    writeFileSync(
      file,
      `name: of-a-repository
nodes:
  - id: only
    command: "test $(curl -s -o /dev/null -w '%{http_code}' http://example.test) = 403"
`,
    )
    const { PATH } = process.env
    const { exitCode, record } = await runWorkflow(
      {
        ...systemIo().sandboxHost(),
        home: desk.home,
        iterionHome: desk.iterionHome,
        tempRoot: desk.tempRoot,
        cwd: desk.workspace,
        env: { ...(PATH !== undefined && { PATH }) },
      },
      { file, image: null, policy: null, command: null, preset_dirs: [] },
      {
        flags: NO_FLAGS,
        workspace: desk.workspace,
        operatorEnv: {},
        builtIn: 'auto',
        version: '0.0.0',
        repository: { file: '.devcontainer/devcontainer.json', image: TEST_IMAGE },
        interactive: false,
        tty: false,
        stdio: 'ignore',
        say: () => undefined,
        stderr: () => undefined,
        control: new RunControl(),
      },
    )
    t.equal(exitCode, 0, record.error ?? '')
    t.strictSame(desk.eventsOf('sandbox_network_defaulted'), [
      { preset: 'iterion-default', source: '.devcontainer/devcontainer.json' },
    ])
    t.match(desk.eventsOf('sandbox_network_sealed'), [{ strength: 'container' }])
    t.match(desk.eventsOf('network_blocked'), [{ host: 'example.test', reason: 'no-rule' }])
  },
)

void tap.test(
  'a run that is asked to end while it is set up is taken down',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    writeFileSync(
      path.join(desk.workspace, 'workflow.yaml'),
      `name: interrupted
sandbox:
  image: ${TEST_IMAGE}
  network: { rules: [] }
  post_create: "touch prepared; trap '' TERM INT; sleep 300"
nodes: [{ id: only, command: "touch ran" }]
`,
    )
    for (const [signal, code, delayMs] of [
      ['SIGINT', 130, 150],
      ['SIGTERM', 143, 400],
      ['SIGHUP', 129, 700],
      ['SIGTERM', 143, 2_500],
    ] as const) {
      const running = desk.start(['run', 'workflow.yaml'])
      await new Promise((resolve) => setTimeout(resolve, delayMs))
      running.child.kill(signal)
      const result = await running.done
      // Before the program listens, a signal is the end of it.
      if (result.code === null) continue
      t.equal(result.code, code, `${signal} after ${delayMs} ms: ${result.stderr}`)
      const { id, status } = desk.record()
      t.equal(status, 'cancelled')
      t.equal(await docker('ps', '-aq', '--filter', `label=${RUN_LABEL}=${id}`), '')
      t.strictSame(desk.leftovers(), [])
    }
  },
)

void tap.test(
  'a policy that does not load ends the run before anything of it runs',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    writeFileSync(
      path.join(desk.workspace, 'policy.yaml'),
      'rules: ["https://a.test", "b..test"]\n',
    )
    const args = ['run', '--policy', 'policy.yaml', '--image', TEST_IMAGE, '--', 'touch', 'ran']
    const { code, stderr } = await desk.run(args)
    t.equal(code, 125)
    t.match(stderr, /policy\.yaml:1:9: .*\n[^]*policy\.yaml:1:27: /, 'every problem with its place')
    t.match(desk.record(), { status: 'failed', retry_class: 'deterministic', container: null })
    t.strictSame(desk.leftovers(), [])
    t.notOk(desk.eventsOf('node_started').length)
  },
)
