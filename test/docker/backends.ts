import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { NO_ENGINE, TEST_IMAGE } from '../support/docker.ts'
import { type Desk, openDesk } from '../support/sandbox-run.ts'

/** A program in the workspace that tells what it was given, and ends as its name says. */
function program(desk: Desk, name: string, code = 0): string {
  const file = path.join(desk.workspace, 'bin', name)
  mkdirSync(path.dirname(file), { recursive: true })
  const tell = 'printf "%s\\n" "$0" "$#" "$@"; cat; echo "[end of input]"'
  writeFileSync(file, `#!/bin/sh\n${tell}\nexit ${code}\n`)
  chmodSync(file, 0o755)
  return file
}

function write(desk: Desk, nodes: string): void {
  const search = `${desk.workspace}/bin:/usr/local/bin:/usr/bin:/bin`
  const sandbox = `{ image: ${TEST_IMAGE}, env: { PATH: "${search}" }, network: { rules: [] } }`
  writeFileSync(
    path.join(desk.workspace, 'workflow.yaml'),
    `name: agents\nsandbox: ${sandbox}\nnodes:\n${nodes}`,
  )
}

const TASK = 'two  words; $(touch hit) "and" \'quotes\' `x` \\ %s'

void tap.test(
  'a task reaches the program of an agent as it is written',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    const agents = [
      ['claude_code', 'claude'],
      ['pi', 'pi'],
      ['kimi', 'kimi'],
      ['grok', 'grok'],
    ] as const
    for (const [, name] of agents) program(desk, name)
    write(
      desk,
      agents
        .map(
          ([backend]) =>
            `  - { id: ${backend}, backend: ${backend}, command: ${JSON.stringify(TASK)} }\n`,
        )
        .join(''),
    )
    const { code, stdout } = await desk.run(['run', 'workflow.yaml'])
    t.equal(code, 0)
    t.equal(
      stdout,
      agents
        .map(([, name]) => `${desk.workspace}/bin/${name}\n2\n-p\n${TASK}\n[end of input]\n`)
        .join(''),
    )
  },
)

void tap.test(
  'claw is run by the iterion of this machine, which reads its task and the end of its input',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    const file = program(desk, 'iterion')
    const hostFile = path.join(desk.workspace, '../iterion-of-the-host')
    writeFileSync(hostFile, '#!/bin/sh\necho "$0 $*"; cat; touch "$0" && echo written\nexit 0\n')
    chmodSync(hostFile, 0o755)
    write(desk, `  - { id: fix, backend: claw, command: ${JSON.stringify(TASK)} }\n`)
    const record = JSON.stringify({
      type: 'task',
      data: { node_id: 'fix', user_prompt: TASK, work_dir: desk.workspace },
    })
    const bound = await desk.run(['run', 'workflow.yaml'], { env: { ITERION_BIN: hostFile } })
    t.match(bound, { code: 0, stdout: `/usr/local/bin/iterion __claw-runner\n${record}\n` })
    t.match(desk.eventsOf('sandbox_claw_routed_via_runner'), [{ binary: hostFile }])
    const own = await desk.run(['run', 'workflow.yaml'])
    t.match(own, { code: 0, stdout: `${file}\n1\n__claw-runner\n${record}\n[end of input]\n` })
    t.strictSame(
      desk.eventsOf('sandbox_claw_routed_via_runner').map(({ binary }) => binary),
      [undefined],
    )
    const wrong = await desk.run(['run', 'workflow.yaml'], { env: { ITERION_BIN: '/nowhere' } })
    t.match(wrong, { code: 125, stderr: /OPTION_INVALID\] ITERION_BIN="\/nowhere"/ })
  },
)

void tap.test(
  'codex is refused before anything starts, and is no fallback',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    program(desk, 'claude', 3)
    program(desk, 'kimi')
    write(
      desk,
      '  - { id: first, command: "touch started" }\n  - { id: second, backend: codex, command: x }\n',
    )
    const refused = await desk.run(['run', 'workflow.yaml'])
    t.match(refused, { code: 125, stderr: /BACKEND_UNSUPPORTED\] the backend of node second/ })
    t.match(desk.record(), {
      status: 'failed',
      failure_code: 'BACKEND_UNSUPPORTED',
      retry_class: 'deterministic',
      checkpoint: { done: [] },
    })
    t.strictSame(
      desk.events().map(({ type }) => type),
      ['sandbox_refused', 'sandbox_stopped'],
    )

    write(desk, '  - { id: a, backend: claude_code, command: x, fallback: [codex, kimi] }\n')
    const { code, stdout, stderr } = await desk.run(['run', 'workflow.yaml'])
    t.equal(code, 0)
    t.match(stderr, /node a: the fallback codex is left out/)
    t.match(stdout, /bin\/claude\n[\s\S]*bin\/kimi\n/)
    t.match(desk.eventsOf('sandbox_fallback_dropped'), [{ node: 'a', backend: 'codex' }])
    t.match(desk.eventsOf('node_fallback'), [{ from: 'claude_code', to: 'kimi', exit_code: 3 }])
    t.strictSame(
      desk.eventsOf('node_started').map(({ backend }) => backend),
      ['claude_code', 'kimi'],
    )
  },
)

void tap.test('without a sandbox codex runs, as a fallback too', { skip: NO_ENGINE }, async (t) => {
  const desk = openDesk(t)
  const codex = program(desk, 'codex')
  program(desk, 'claude', 1)
  write(desk, '  - { id: a, backend: claude_code, command: x, fallback: [codex] }\n')
  const { code, stdout } = await desk.run(['run', '--sandbox', 'none', 'workflow.yaml'], {
    input: '',
  })
  t.equal(code, 0)
  t.match(stdout, `${codex}\n2\nexec\nx\n[end of input]\n`)
})
