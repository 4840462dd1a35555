import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { RUN_LABEL } from '../../src/sandbox/labels.ts'
import { docker, NO_ENGINE, TEST_IMAGE, uniqueName } from '../support/docker.ts'
import { openDesk } from '../support/sandbox-run.ts'

const POLICY = 'rules: ["allowed.test"]\n'

/** The containers of a run, also those that have ended. */
async function containersOf(id: string): Promise<string[]> {
  const stdout = await docker('ps', '-aq', '--filter', `label=${RUN_LABEL}=${id}`)
  return stdout.split('\n').filter((line) => line !== '')
}

async function waitFor(what: string, isSo: () => boolean | Promise<boolean>): Promise<void> {
  for (let i = 0; i < 400; i++) {
    if (await isSo()) return
    await new Promise((resolve) => setTimeout(resolve, 25))
  }
  throw new Error(`not in time: ${what}`)
}

void tap.test(
  'entrypoint and health check of the image never run',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    const name = uniqueName('image')
    const mark = `touch ${desk.workspace}/`
    const file = `FROM ${TEST_IMAGE}
ENTRYPOINT ["/bin/sh", "-c", "${mark}entrypoint; exec \\"$@\\"", "sh"]
CMD ["/bin/sh", "-c", "${mark}cmd"]
HEALTHCHECK --interval=1s CMD ${mark}health
VOLUME /data
`
    writeFileSync(path.join(desk.folder, 'Dockerfile'), file)
    await docker('build', '-q', '-t', name, '-f', `${desk.folder}/Dockerfile`, desk.tempRoot)
    t.teardown(() => docker('rmi', '-f', name))
    const before = await docker('volume', 'ls', '-q')
    const { code, stdout } = await desk.run([
      'run',
      '--image',
      name,
      '--',
      'sh',
      '-c',
      'sleep 2; ls',
    ])
    t.match({ code, stdout }, { code: 0, stdout: '' })
    t.equal(await docker('volume', 'ls', '-q'), before, 'no anonymous volume is left')
  },
)

void tap.test(
  'a killed orchestrator ends its container at once',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    writeFileSync(path.join(desk.workspace, 'policy.yaml'), POLICY)
    const running = desk.start([
      'run',
      '--policy',
      'policy.yaml',
      '--image',
      TEST_IMAGE,
      '--',
      'sh',
      '-c',
      'test -e again && exit 9; touch again; echo up; sleep 300',
    ])
    await running.hears('up')
    const { id } = desk.record()
    t.equal((await containersOf(id)).length, 1)
    running.child.kill('SIGKILL')
    await running.done
    await waitFor('the container ends', async () => (await containersOf(id)).length === 0)
    t.match(desk.record(), { status: 'running' }, 'nobody was left to write it down')
    const { stdout } = await desk.run(['reap', '--json'])
    t.match(JSON.parse(stdout), { runs: [id], left_behind: [] })
    t.match(desk.record(), { status: 'failed_resumable', failure_code: 'RUN_ORPHANED' })
    t.strictSame(desk.leftovers(), [])
    t.match(await desk.run(['resume', id]), { code: 9 }, 'it can be resumed')
  },
)

void tap.test(
  'what a killed orchestrator could not end is reaped by the next run',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    const running = desk.start([
      'run',
      '--image',
      TEST_IMAGE,
      '--',
      'sh',
      '-c',
      'echo up; sleep 300',
    ])
    await running.hears('up')
    const { id, container } = desk.record()
    // A container that stands still does not see its pipe close.
    await docker('pause', container ?? '')
    // Its command line of `exec` waits for the container, and holds its output.
    const exited = once(running.child, 'exit')
    running.child.kill('SIGKILL')
    await exited
    t.equal((await containersOf(id)).length, 1)
    const { code } = await desk.runCommand([], ['true'])
    t.equal(code, 0)
    await waitFor('the container is gone', async () => (await containersOf(id)).length === 0)
    t.strictSame(desk.leftovers(), [])
  },
)

void tap.test(
  'nobody reaps a run that lives, or that cannot be judged',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    const running = desk.start(['run', '--image', TEST_IMAGE, '--', 'sh', '-c', 'echo up; sleep 2'])
    await running.hears('up')
    const { id } = desk.record()
    const other = uniqueName('other-boot')
    t.teardown(() => docker('rm', '-f', other))
    const labels = Object.entries({
      [RUN_LABEL]: 'other',
      [RUN_LABEL.replace(/run$/, 'boot')]: 'another-boot',
      [RUN_LABEL.replace(/run$/, 'pid-namespace')]: 'pid:[1]',
      [RUN_LABEL.replace(/run$/, 'pid')]: '1',
      [RUN_LABEL.replace(/run$/, 'start')]: '1',
    }).flatMap(([name, value]) => ['--label', `${name}=${value}`])
    await docker(
      'run',
      '-d',
      '--name',
      other,
      ...labels,
      '--network',
      'none',
      TEST_IMAGE,
      'sleep',
      '60',
    )
    const { stdout } = await desk.run(['reap', '--json'])
    t.strictSame(JSON.parse(stdout), {
      containers: [],
      runs: [],
      left_behind: [],
      git_metadata: [],
    })
    t.equal((await containersOf(id)).length, 1)
    t.match(await docker('inspect', '-f', '{{.State.Running}}', other), /true/)
    t.match(await running.done, { code: 0 })
  },
)

void tap.test(
  'a container that is gone fails the run, which can be resumed',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    const running = desk.start([
      'run',
      '--image',
      TEST_IMAGE,
      '--',
      'sh',
      '-c',
      'echo up; sleep 300',
    ])
    await running.hears('up')
    await docker('rm', '-f', desk.record().container ?? '')
    const { code, stderr } = await running.done
    t.equal(code, 125)
    t.match(stderr, /SANDBOX_LOST|NODE_FAILED/)
    t.match(desk.record(), { status: 'failed_resumable' })
    t.strictSame(desk.leftovers(), [])
  },
)

void tap.test('an image that is not here and cannot be had', { skip: NO_ENGINE }, async (t) => {
  const desk = openDesk(t)
  // Port 9 of loopback: no registry listens there.
  const { code, stderr } = await desk.run(['run', '--image', '127.0.0.1:9/none:1', '--', 'true'])
  t.equal(code, 125)
  t.match(stderr, /SANDBOX_IMAGE_UNAVAILABLE/)
  t.match(desk.record(), { status: 'failed_resumable', retry_class: 'transient' })
  t.strictSame(desk.leftovers(), [])
})

void tap.test('runs are listed, shown and stopped', { skip: NO_ENGINE }, async (t) => {
  const desk = openDesk(t)
  t.match(await desk.run(['runs', 'list']), { code: 0, stdout: '' })
  const running = desk.start(['run', '--image', TEST_IMAGE, '--', 'sh', '-c', 'echo up; sleep 300'])
  await running.hears('up')
  const { id } = desk.record()
  t.match(
    (await desk.run(['runs', 'list'])).stdout,
    new RegExp(`^${id}  running  +sh -c echo up; sleep 300\n$`),
  )
  const { stdout } = await desk.run(['runs', 'show', id])
  t.match(stdout, /^status +running$/m)
  t.match(stdout, new RegExp(`^image +${TEST_IMAGE}\ndoor +none$`, 'm'))
  t.match(await desk.run(['runs', 'stop', id]), { code: 0 })
  t.match(await running.done, { code: 143 })
  t.match(
    (await desk.run(['runs', 'list'])).stdout,
    / {2}cancelled +sh -c echo up; sleep 300 {2}RUN_CANCELLED/,
  )
  t.match(await desk.run(['runs', 'stop', id]), { code: 1 })
  t.match(await desk.run(['runs', 'show', 'nothing']), { code: 1 })
  const events = (await desk.run(['runs', 'show', id, '--events'])).stdout
  t.equal(events, readFileSync(`${desk.iterionHome}/runs/${id}/events.jsonl`, 'utf8'))
  t.strictSame(
    (JSON.parse((await desk.run(['runs', 'list', '--json'])).stdout) as { id: string }[]).map(
      (run) => run.id,
    ),
    [id],
  )
})

void tap.test(
  'what is in a run is in no argument of a process and in nothing the engine shows',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    writeFileSync(path.join(desk.workspace, 'token'), 'value-of-file-secret')
    writeFileSync(
      path.join(desk.workspace, 'workflow.yaml'),
      `name: secrets
sandbox:
  image: ${TEST_IMAGE}
  env: { FROM_WORKFLOW: value-of-workflow }
secrets:
  - { name: AS_FILE, as: file, from: { file: token } }
  - { name: AS_ENV, as: env, from: { env: HOST_SECRET } }
nodes:
  - id: show
    command: cat $AS_FILE_FILE; stat -c '%a' $AS_FILE_FILE; echo "$AS_ENV $FROM_WORKFLOW $NAMED"; echo up; sleep 3
`,
    )
    const running = desk.start(['run', '--env', 'NAMED=value-of-operator', 'workflow.yaml'], {
      env: { HOST_SECRET: 'value-of-env-secret' },
    })
    await running.hears('up')
    const { container } = desk.record()
    const shown = [
      await docker('inspect', container ?? ''),
      execFileSync('ps', ['-eo', 'args', '--no-headers']).toString(),
      JSON.stringify(desk.record()),
      JSON.stringify(desk.events()),
    ]
    for (const text of shown) {
      for (const secret of ['value-of-file-secret', 'value-of-env-secret', 'value-of-workflow']) {
        t.notOk(text.includes(secret), secret)
      }
    }
    t.notOk(shown.slice(2).some((text) => text.includes('value-of-operator')))
    const { code, stdout, stderr } = await running.done
    t.equal(code, 0, stderr)
    t.match(
      stdout,
      'value-of-file-secret400\nvalue-of-env-secret value-of-workflow value-of-operator\n',
    )
  },
)
