import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { NO_ENGINE, TEST_IMAGE } from '../support/docker.ts'
import { type Desk, openDesk } from '../support/sandbox-run.ts'

function write(desk: Desk, text: string, name = 'workflow.yaml'): void {
  writeFileSync(path.join(desk.workspace, name), text)
}

void tap.test(
  'nodes share a container, run in order, and are not run twice',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    const text = (last: string) => `name: three
sandbox: { image: ${TEST_IMAGE} }
nodes:
  - { id: first, command: "echo first >> order; echo kept > /tmp/kept" }
  - { id: second, command: [sh, -c, "echo second >> order; cat /tmp/kept; exec sleep 0"] }
  - { id: third, command: "echo third >> order; ${last}" }
`
    write(desk, text('test -e allowed'))
    const failed = await desk.run(['run', 'workflow.yaml'])
    t.match(failed, { code: 1, stdout: 'kept\n' })
    const { id } = desk.record()
    t.match(desk.record(), {
      status: 'failed_resumable',
      checkpoint: { done: [{ node: 'first' }, { node: 'second' }], next: 'third' },
    })
    writeFileSync(path.join(desk.workspace, 'allowed'), '')
    t.match(await desk.run(['resume', id]), { code: 0 })
    t.match(desk.record(), { id, status: 'finished', attempt: 2, checkpoint: { next: null } })
    t.equal(
      readFileSync(path.join(desk.workspace, 'order'), 'utf8'),
      'first\nsecond\nthird\nthird\n',
    )
    t.strictSame(
      desk.events().map(({ seq }) => seq),
      desk.events().map((_, index) => index + 1),
      'both attempts count their events in one row',
    )
    t.match(await desk.run(['resume', id]), { code: 125, stderr: /RUN_NOT_RESUMABLE/ })
  },
)

void tap.test(
  'a changed workflow or policy is not gone on with unasked',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    const text = (command: string, rule: string) => `name: changed
sandbox:
  image: ${TEST_IMAGE}
  network: { rules: [${rule}] }
nodes: [{ id: only, command: "${command}" }]
`
    write(desk, text('false', 'a.test'))
    await desk.run(['run', 'workflow.yaml'])
    const { id } = desk.record()
    for (const [changed, what] of [
      [text('true', 'a.test'), 'the workflow changed'],
      [text('false', 'b.test'), 'the workflow and its policy changed'],
    ] as const) {
      write(desk, changed)
      const refused = await desk.run(['resume', id])
      t.match(refused, { code: 125 })
      t.match(
        refused.stderr,
        new RegExp(`${what}.*SANDBOX_SPEC_CHANGED|SANDBOX_SPEC_CHANGED.*${what}|${what}`),
      )
      t.match(desk.record(), { status: 'failed_resumable', attempt: 1 }, 'and can still be resumed')
    }
    write(desk, `# a comment changes nothing\n${text('false', 'a.test')}`)
    t.match(await desk.run(['resume', id]), { code: 1 })
    write(desk, text('true', 'b.test'))
    t.match(await desk.run(['resume', '--accept-changes', id]), { code: 0 })
  },
)

void tap.test(
  'what a policy file beside it says changes the digest too',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    write(desk, 'rules: [a.test]\n', 'policy.yaml')
    await desk.run(['run', '--policy', 'policy.yaml', '--image', TEST_IMAGE, '--', 'false'])
    write(desk, 'rules: [b.test]\n', 'policy.yaml')
    const { id } = desk.record()
    t.match(await desk.run(['resume', id]), { code: 125, stderr: /its policy changed/ })
  },
)

void tap.test('operator variables are asked for again', { skip: NO_ENGINE }, async (t) => {
  const desk = openDesk(t)
  const args = ['--env', 'KEY=topsecret', '--image', TEST_IMAGE, '--']
  await desk.run(['run', ...args, 'sh', '-c', 'test "$KEY" = other'])
  const { id } = desk.record()
  t.notMatch(readFileSync(`${desk.iterionHome}/runs/${id}/run.json`, 'utf8'), /topsecret/)
  t.match(await desk.run(['resume', id]), { code: 125, stderr: /--env KEY/ })
  t.match(await desk.run(['resume', '--env', 'KEY=other', id]), { code: 0 })
})

void tap.test(
  'post_create comes behind the door and before the nodes',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    const text = (postCreate: string) => `name: prepared
sandbox:
  image: ${TEST_IMAGE}
  env: { GREETING: "hello" }
  post_create: ${JSON.stringify(postCreate)}
  network: { rules: [] }
nodes: [{ id: only, command: "cat /opt/made" }]
`
    const line = `for d in a b; do echo $d \${x:-y} $GREETING; done; curl -s -o /dev/null -w '%{http_code}' http://denied.test > /opt/made`
    write(desk, text(line))
    const { code, stdout, stderr } = await desk.run(['run', 'workflow.yaml'])
    t.match({ code, stdout }, { code: 0, stdout: '403' })
    t.match(stderr, /a y hello\nb y hello\n/, 'no other layer expands its dollars')
    write(desk, text('echo last words; exit 3'))
    const failed = await desk.run(['run', 'workflow.yaml'])
    t.equal(failed.code, 125)
    t.match(failed.stderr, /SANDBOX_SETUP_FAILED.*post_create ended with 3:\n {4}last words/s)
    t.match(desk.record(), { checkpoint: { done: [], next: 'only' } })
    t.strictSame(desk.leftovers(), [])
  },
)

void tap.test(
  'a phase that takes too long is over, and nothing is left',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    write(
      desk,
      `name: slow
sandbox:
  image: ${TEST_IMAGE}
  post_create: "trap '' TERM INT; sleep 300"
nodes: [{ id: only, command: "true" }]
`,
    )
    const env = { ITERION_SANDBOX_POST_CREATE_TIMEOUT: '600ms' }
    const { code, stderr } = await desk.run(['run', 'workflow.yaml'], { env })
    t.equal(code, 125)
    t.match(stderr, /SANDBOX_SETUP_TIMEOUT.*ITERION_SANDBOX_POST_CREATE_TIMEOUT/)
    const data = {
      phase: 'post_create',
      knob: 'ITERION_SANDBOX_POST_CREATE_TIMEOUT',
      bound_ms: 600,
    }
    t.strictSame(desk.eventsOf('sandbox_setup_slow'), [data])
    t.strictSame(desk.eventsOf('sandbox_setup_timeout'), [data])
    t.match(desk.record(), {
      status: 'failed_resumable',
      failure_code: 'SANDBOX_SETUP_TIMEOUT',
      retry_class: 'transient',
      checkpoint: { done: [], next: 'only' },
    })
    t.strictSame(desk.leftovers(), [])
    const again = await desk.run(['resume', desk.record().id], { env })
    t.equal(again.code, 125)
    t.match(desk.record(), { failure_code: 'SANDBOX_SETUP_TIMEOUT', attempt: 2 })
    t.strictSame(desk.leftovers(), [])
  },
)

void tap.test('each phase has its bound', { skip: NO_ENGINE }, async (t) => {
  const desk = openDesk(t)
  write(desk, 'rules: []\n', 'policy.yaml')
  for (const [phase, variable, image] of [
    ['pull', 'ITERION_SANDBOX_PULL_TIMEOUT', '127.0.0.1:9/none:1'],
    ['create', 'ITERION_SANDBOX_CREATE_TIMEOUT', TEST_IMAGE],
    ['door', 'ITERION_SANDBOX_DOOR_TIMEOUT', TEST_IMAGE],
  ] as const) {
    const args = ['run', '--policy', 'policy.yaml', '--image', image, '--', 'true']
    const { code } = await desk.run(args, { env: { [variable]: '1ms' } })
    t.equal(code, 125, phase)
    t.match(desk.record(), { failure_code: 'SANDBOX_SETUP_TIMEOUT' }, phase)
    t.match(desk.eventsOf('sandbox_setup_timeout'), [{ phase, knob: variable }])
    t.strictSame(desk.leftovers(), [], phase)
  }
})

void tap.test(
  'a knob that is no duration is told, and its default holds',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    for (const value of ['5', '-1m', 'abc']) {
      const { code, stderr } = await desk.run(['run', '--image', TEST_IMAGE, '--', 'true'], {
        env: { ITERION_SANDBOX_PULL_TIMEOUT: value },
      })
      t.equal(code, 0)
      const lines = stderr
        .split('\n')
        .filter((line) => line.includes('ITERION_SANDBOX_PULL_TIMEOUT'))
      t.equal(lines.length, 1)
      t.match(lines[0], value)
      t.match(lines[0], '10m')
    }
  },
)

void tap.test(
  'mounts and attachments are what the workflow says, and no more',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    writeFileSync(path.join(desk.folder, 'data'), 'data')
    writeFileSync(path.join(desk.workspace, 'notes'), 'notes')
    write(
      desk,
      `name: mounted
sandbox:
  image: ${TEST_IMAGE}
  mounts: ["${desk.folder}/data:/mnt/data:ro"]
attachments: [notes]
nodes:
  - id: only
    command: "cat /mnt/data notes; echo x > notes; echo x > /mnt/data; echo made > new; pwd"
`,
    )
    const { code, stdout } = await desk.run(['run', 'workflow.yaml'])
    t.match({ code, stdout }, { code: 0, stdout: `datanotes${desk.workspace}\n` })
    t.equal(readFileSync(path.join(desk.workspace, 'notes'), 'utf8'), 'notes')
    t.equal(readFileSync(path.join(desk.folder, 'data'), 'utf8'), 'data')
    t.equal(readFileSync(path.join(desk.workspace, 'new'), 'utf8'), 'made\n')
  },
)

void tap.test(
  'a mount that would open the sandbox refuses the run',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    for (const source of [
      '/',
      '/var/run/docker.sock',
      '/var/run/../run/docker.sock',
      '/proc/1/root',
      desk.iterionHome,
    ]) {
      write(
        desk,
        `name: unsafe
sandbox: { image: ${TEST_IMAGE}, mounts: ["${source}:/mnt/x"] }
nodes: [{ id: only, command: "touch ran" }]
`,
      )
      const { code, stderr } = await desk.run(['run', 'workflow.yaml'])
      t.equal(code, 125, source)
      t.match(stderr, /SANDBOX_SPEC_UNSAFE/, source)
      t.match(desk.record(), { status: 'failed', retry_class: 'deterministic' }, source)
    }
    t.notOk(existsSync(path.join(desk.workspace, 'ran')))
  },
)

void tap.test('the outcome goes to the record of the schedule', { skip: NO_ENGINE }, async (t) => {
  const desk = openDesk(t)
  const file = path.join(desk.folder, 'schedule.json')
  const args = ['run', '--schedule-record', file, '--image', TEST_IMAGE, '--']
  await desk.run([...args, 'false'])
  t.match(JSON.parse(readFileSync(file, 'utf8')), { last_run_error_code: 'NODE_FAILED' })
  await desk.run([...args, 'true'])
  t.match(JSON.parse(readFileSync(file, 'utf8')), {
    last_run_error_code: null,
    last_run_status: 'finished',
  })
  writeFileSync(file, 'no json')
  t.match(await desk.run([...args, 'touch', 'ran']), { code: 125, stderr: /schedule record/ })
  t.notOk(existsSync(path.join(desk.workspace, 'ran')), 'known before anything starts')
})

void tap.test(
  'a resume that is refused does not undo what was done',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    write(
      desk,
      `name: secret
sandbox: { image: ${TEST_IMAGE} }
secrets: [{ name: TOKEN, as: env, from: { env: TOKEN } }]
nodes:
  - { id: first, command: "echo first" }
  - { id: second, command: "echo second; test -e allowed" }
`,
    )
    const env = { TOKEN: 'x' }
    t.match(await desk.run(['run', 'workflow.yaml'], { env }), { code: 1 })
    const { id } = desk.record()
    t.match(await desk.run(['resume', id]), { code: 125, stderr: /OPTION_INVALID.*TOKEN/ })
    t.match(desk.record(), { status: 'failed_resumable', checkpoint: { next: 'second' } })
    writeFileSync(path.join(desk.workspace, 'allowed'), '')
    t.match(await desk.run(['resume', id], { env }), { code: 0, stdout: 'second\n' })
    t.match(await desk.run(['run', 'workflow.yaml']), { code: 125 })
    t.match(desk.record(), { status: 'failed' }, 'a first attempt has nothing to keep')
  },
)
