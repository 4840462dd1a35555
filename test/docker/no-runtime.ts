import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { NO_ENGINE, TEST_IMAGE } from '../support/docker.ts'
import { type Desk, openDesk } from '../support/sandbox-run.ts'

function write(desk: Desk, text: string): void {
  writeFileSync(path.join(desk.workspace, 'workflow.yaml'), text)
}

void tap.test('without a runtime', { skip: NO_ENGINE }, async (t) => {
  const desk = openDesk(t)
  const env = { PATH: path.join(desk.folder, 'nothing') }
  const file = path.join(desk.folder, 'schedule.json')
  write(
    desk,
    `name: bare
secrets: [{ name: A, as: file, from: { file: workflow.yaml } }]
nodes: [{ id: only, command: [/bin/sh, -c, "echo bare; test -z \\"$A_FILE\\""] }]
`,
  )
  const open = await desk.run(['run', 'workflow.yaml'], { env })
  t.match(open, { code: 0, stdout: 'bare\n', stderr: /no container runtime/ })
  t.strictSame(desk.eventsOf('sandbox_skipped'), [
    { reason: 'no-runtime', file_secrets_dropped: true },
  ])
  write(
    desk,
    `name: policy
sandbox: { network: { rules: [a.test] } }
nodes: [{ id: only, command: [/bin/sh, -c, "touch ran"] }]
`,
  )
  const refused = await desk.run(['run', '--schedule-record', file, 'workflow.yaml'], { env })
  t.match(refused, { code: 125, stderr: /SANDBOX_DRIVER_UNAVAILABLE/ })
  t.match(desk.record(), {
    status: 'failed',
    failure_code: 'SANDBOX_DRIVER_UNAVAILABLE',
    error: /SANDBOX_DRIVER_UNAVAILABLE/,
    retry_class: 'deterministic',
  })
  t.match(desk.eventsOf('sandbox_refused'), [{ failure_code: 'SANDBOX_DRIVER_UNAVAILABLE' }])
  t.match(JSON.parse(readFileSync(file, 'utf8')), {
    last_run_error_code: 'SANDBOX_DRIVER_UNAVAILABLE',
  })
  t.notOk(existsSync(path.join(desk.workspace, 'ran')))
})

void tap.test('no sandbox is said aloud', { skip: NO_ENGINE }, async (t) => {
  const desk = openDesk(t)
  const { code, stderr } = await desk.run(['run', '--sandbox', 'none', '--', 'sh', '-c', 'exit 4'])
  t.equal(code, 4)
  t.match(
    stderr,
    /warning C128: --sandbox none: the commands run on this machine without a sandbox/,
  )
  t.match(desk.eventsOf('sandbox_skipped'), [{ reason: 'mode-none', code: 'C128' }])
})

void tap.test(
  'a dead engine is a failure, never a reason to go on without',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    const env = { DOCKER_HOST: `unix://${desk.folder}/none.sock` }
    for (const args of [
      ['run', '--image', TEST_IMAGE, '--', 'touch', 'ran'],
      ['run', '--sandbox', 'auto', '--', 'touch', 'ran'],
    ]) {
      const { code, stderr } = await desk.run(args, { env })
      t.equal(code, 125)
      t.match(stderr, /SANDBOX_ENGINE_UNREACHABLE/)
      t.match(desk.record(), { status: 'failed_resumable', retry_class: 'transient' })
    }
    const remote = await desk.run(['run', '--image', TEST_IMAGE, '--', 'touch', 'ran'], {
      env: { DOCKER_HOST: 'tcp://127.0.0.1:9' },
    })
    t.match(remote, { code: 125, stderr: /a remote engine cannot bind-mount the workspace/ })
    t.notOk(existsSync(path.join(desk.workspace, 'ran')))
  },
)
