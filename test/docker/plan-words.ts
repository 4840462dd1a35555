import { chmodSync, existsSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { NO_ENGINE, TEST_IMAGE } from '../support/docker.ts'
import { openDesk } from '../support/sandbox-run.ts'
import { devcontainer, workflow } from '../support/workflow-file.ts'

/** What is wrong, without how each command says that. */
function wordsOf(stderr: string): string {
  return stderr
    .replace(/^iterion-egress: (?:run|warning).*\n/gm, '')
    .replace(/^(?:iterion-egress: \[\w+\]|error:) (.*?)(?: \[\w+\])?$/gm, '$1')
}

void tap.test(
  'what run refuses, plan refuses, with the same words',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    writeFileSync(
      path.join(desk.workspace, 'Fetching'),
      `FROM ${TEST_IMAGE}\nADD https://a.test/x /x\n`,
    )
    const sealed = { network: { rules: [] } }
    const lines = { env: { KEY: 'two\nlines' }, post_create: 'true', user: '1000' }
    const cases: readonly (readonly [sandbox: object | string, code: string, more?: object])[] = [
      [{ image: TEST_IMAGE, mounts: ['/var/run/docker.sock:/s', '/:/h'] }, 'SANDBOX_SPEC_UNSAFE'],
      [{ ...sealed, build: { dockerfile: 'Fetching' } }, 'SANDBOX_SPEC_UNSAFE'],
      [{ build: { dockerfile: 'nothing' } }, 'FILE_UNREADABLE'],
      [
        { image: TEST_IMAGE },
        'OPTION_INVALID',
        { secrets: [{ name: 'A', as: 'env', from: { env: 'NO' } }] },
      ],
      ['none', 'OPTION_INVALID', { secrets: [{ name: 'A', as: 'env', from: { env: 'NO' } }] }],
      [{ image: TEST_IMAGE, ...lines }, 'none'],
    ]
    chmodSync(desk.workspace, 0o777)
    for (const [sandbox, code, more = {}] of cases) {
      const words = [workflow(desk, { sandbox, ...more })]
      const run = await desk.run(['run', ...words], { input: '' })
      const plan = await desk.run(['plan', ...words])
      if (code === 'none') {
        t.match([run.code, plan.code], [0, 0], run.stderr + plan.stderr)
        continue
      }
      t.match([run.code, plan.code], [125, 1], JSON.stringify(sandbox))
      t.match(plan.stderr, new RegExp(code))
      t.equal(wordsOf(plan.stderr), wordsOf(run.stderr))
      const { stdout } = await desk.run(['plan', '--json', ...words])
      t.match(JSON.parse(stdout), { sandbox: null, refusal: { code } })
    }
    const codex = workflow(desk, {
      sandbox: { image: TEST_IMAGE },
      nodes: [{ id: 'a', backend: 'codex', command: 'x' }],
    })
    t.match(await desk.run(['plan', codex]), { code: 1, stderr: /BACKEND_UNSUPPORTED/ })
    t.match(await desk.run(['plan', '--sandbox', 'none', codex]), {
      code: 0,
      stdout: /codex exec x/,
    })
    t.match(await desk.run(['plan']), { code: 2 })
    t.match(await desk.run(['plan', 'nothing.yaml']), { code: 1, stderr: /FILE_UNREADABLE/ })
  },
)

void tap.test('an image that is not here is not fetched', { skip: NO_ENGINE }, async (t) => {
  const desk = openDesk(t)
  const { code, stdout } = await desk.run([
    'plan',
    '--image',
    'iterion-nowhere.invalid/x:1',
    '--',
    'true',
  ])
  t.equal(code, 0)
  t.match(stdout, /not here, would be pulled; its user, variables and volumes are not known/)
})

/** What no line of ours holds. */
const FORGED = /[\u{7}\u{1b}\u{9b}\u{202e}]|^(?:FORGED|pass {2}safety FORGED)/mu

void tap.test(
  'nobody who has a hand in it writes lines, or commands of a terminal, in our name',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    const trick = '\u{1b}]0;x\u{7}\u{9b}2J\u{202e}\nFORGED'
    devcontainer(desk, { mounts: [`type=volume,source=v${trick},target=/x`], customizations: {} })
    const words = [workflow(desk, { sandbox: 'auto' })]
    for (const command of ['run', 'plan', 'doctor']) {
      const { stdout, stderr } = await desk.run([command, ...words], { input: '' })
      t.notMatch(stdout + stderr, FORGED, command)
      if (command !== 'doctor') t.match(stdout + stderr, /the volume v\\u\{1b\}/, command)
    }
    const env = { ITERION_SANDBOX_PREFLIGHT: '1' }
    const unsafe = workflow(desk, { sandbox: { image: TEST_IMAGE, mounts: [`/no${trick}:/x`] } })
    for (const one of [{}, env]) {
      const { code, stderr } = await desk.run(['run', unsafe], { env: one, input: '' })
      t.equal(code, 125)
      t.notMatch(stderr, FORGED)
    }
    // What a run leaves behind is named by who was in the sandbox.
    const odd = path.join(desk.workspace, `dir${trick}`)
    const plain = workflow(desk, {
      sandbox: { image: TEST_IMAGE },
      nodes: [
        {
          id: 'a',
          command: `git init -q "$D" && echo x > "$D/.git/hooks/post-commit"; exec sleep 60`,
        },
      ],
    })
    const running = desk.start(['run', '--env', `D=${odd}`, plain], { input: '' })
    for (let i = 0; i < 100 && !existsSync(path.join(odd, '.git/hooks/post-commit')); i++) {
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
    running.child.kill('SIGKILL')
    await running.done
    await new Promise((resolve) => setTimeout(resolve, 1_500))
    const { stdout, stderr } = await desk.run(['reap'])
    t.match(stdout + stderr, /left .*dir\\u\{1b\}/)
    t.notMatch(stdout + stderr, FORGED, 'reap')
  },
)

void tap.test('what is hidden stays so under another name', { skip: NO_ENGINE }, async (t) => {
  const desk = openDesk(t)
  devcontainer(desk, {
    containerEnv: { SHOWN: '${localEnv:GIVEN}' },
    remoteEnv: { AGAIN: 'x-${containerEnv:SHOWN}-y' },
  })
  const words = ['--env', 'GIVEN', workflow(desk, {})]
  for (const more of [[], ['--json']]) {
    const { code, stdout } = await desk.run(['plan', ...more, ...words], {
      env: { GIVEN: 's3cr3t' },
    })
    t.equal(code, 0)
    t.match(stdout, /SHOWN/)
    t.notMatch(stdout, /s3cr3t/)
  }
})

void tap.test(
  'without a sandbox nothing holds, and plan says so',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    const file = workflow(desk, { sandbox: { image: TEST_IMAGE, network: { rules: ['a.test'] } } })
    const bare = await desk.run(['plan', '--sandbox', 'none', file])
    t.match(bare, { code: 0, stdout: /^network +that of this machine; the policy does not hold$/m })
    const { stdout } = await desk.run(['plan', '--json', '--sandbox', 'none', file])
    t.match(JSON.parse(stdout), {
      sandboxed: false,
      network: { kind: 'host', policy_dropped: true },
    })
    const advisory = await desk.run([
      'plan',
      '--door',
      'advisory',
      '-i',
      '--resolve',
      'a.test:192.0.2.1',
      file,
    ])
    t.match(advisory, { code: 0, stdout: /^warning +the container has a network: only variables/m })
    t.match(advisory.stdout, /^resolve +a\.test:192\.0\.2\.1$/m)
    const nowhere = await desk.run(['plan', file], { env: { TMPDIR: '/nowhere' } })
    t.match(nowhere, { code: 1, stderr: /\/nowhere.*RUN_STORE_FAILED/s })
  },
)
