import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import tap, { type Test } from 'tap'
import { runtimeCommand } from '../../src/door/container-runtime.ts'
import { createDockerDriver } from '../../src/sandbox/drivers/docker.ts'
import { docker, NO_ENGINE, TEST_IMAGE, testRuntime, uniqueName } from '../support/docker.ts'
import {
  loadIntoPodman,
  NO_PODMAN,
  openPodmanDesk,
  podman,
  podmanRuntime,
} from '../support/podman.ts'
import { type Desk, openDesk } from '../support/sandbox-run.ts'

// Each line of the table of differences, on both runtimes: what a run finds is the same.

const PROXY = 'http://user:password@proxy.test:8080'

/** A test of the same name for each runtime. */
function onBoth(name: string, check: (t: Test, desk: Desk) => Promise<void>): void {
  void tap.test(`docker: ${name}`, { skip: NO_ENGINE }, (t) => check(t, openDesk(t)))
  void tap.test(`podman: ${name}`, { skip: NO_PODMAN }, (t) => check(t, openPodmanDesk(t)))
}

/** Makes an image of the test's own in both runtimes. */
async function buildImage(t: Test, desk: Desk, lines: string): Promise<string> {
  const name = `${uniqueName('image')}:latest`
  writeFileSync(path.join(desk.folder, 'Dockerfile'), `FROM ${TEST_IMAGE}\n${lines}`)
  await docker('build', '-q', '-t', name, '-f', `${desk.folder}/Dockerfile`, desk.tempRoot)
  t.teardown(() => docker('rmi', '-f', name))
  if (!NO_PODMAN) {
    loadIntoPodman(name)
    t.teardown(() => podman('rmi', '-f', name))
  }
  return name
}

onBoth('the first process collects orphans', async (t, desk) => {
  const script = `(sh -c 'sleep 0.1' & ); sleep 0.7; grep -l '^State:.Z' /proc/[0-9]*/status; echo end`
  const { stdout, stderr } = await desk.runCommand([], ['sh', '-c', script])
  t.equal(stdout, 'end\n', stderr)
})

onBoth('low ports are for every user', async (t, desk) => {
  writeFileSync(
    path.join(desk.workspace, 'workflow.yaml'),
    `name: port
sandbox: { image: "${TEST_IMAGE}", user: "1000:1000", network: { rules: [allowed.test] } }
nodes:
  - { id: n, command: [node, -e, "require('net').createServer().listen(80, () => process.exit())"] }
`,
  )
  const { code, stderr } = await desk.run(['run', 'workflow.yaml'])
  t.equal(code, 0, stderr)
})

onBoth('what root may do is for root alone', async (t, desk) => {
  for (const [user, effective] of [
    ['1000:1000', '0000000000000000'],
    ['0:0', '00000000000404fb'],
  ] as const) {
    writeFileSync(
      path.join(desk.workspace, 'workflow.yaml'),
      `name: capabilities
sandbox: { image: "${TEST_IMAGE}", user: "${user}" }
nodes: [{ id: n, command: "grep CapEff /proc/self/status | cut -f2" }]
`,
    )
    const { stdout, stderr } = await desk.run(['run', 'workflow.yaml'])
    t.equal(stdout, `${effective}\n`, `${user} ${stderr}`)
  }
})

onBoth('memory belongs to the user of the sandbox', async (t, desk) => {
  writeFileSync(
    path.join(desk.workspace, 'workflow.yaml'),
    `name: tmpfs
sandbox: { image: "${TEST_IMAGE}", user: "1000:1001" }
nodes: [{ id: n, command: "stat -c '%u:%g %a' /run/secrets && touch /run/secrets/x" }]
`,
  )
  t.match(await desk.run(['run', 'workflow.yaml']), { code: 0, stdout: '1000:1001 700\n' })
})

onBoth('what the image has under a file system in memory stays below it', async (t, desk) => {
  const image = await buildImage(
    t,
    desk,
    'RUN mkdir -p /run/secrets && echo x > /run/secrets/of-image\n',
  )
  const { stdout, stderr } = await desk.run(['run', '--image', image, '--', 'ls', '/run/secrets'])
  t.equal(stdout, '', stderr)
})

onBoth('the gateway of the bridge is where advisory listens', async (t, desk) => {
  writeFileSync(path.join(desk.workspace, 'policy.yaml'), 'rules: ["allowed.test"]\n')
  const { stdout, stderr } = await desk.runCommand(
    ['--policy', 'policy.yaml', '--door', 'advisory'],
    ['curl', '-s', '-o', '/dev/null', '-w', '%{http_connect}', 'https://denied.test/'],
  )
  t.equal(stdout, '403', stderr)
})

const SHOW_PROXIES = [
  'sh',
  '-c',
  "tr '\\0' '\\n' < /proc/1/environ | grep -i proxy; env | grep -i proxy",
]

void tap.test('podman: its own proxy variables stay outside', { skip: NO_PODMAN }, async (t) => {
  const desk = openPodmanDesk(t, { HTTP_PROXY: PROXY, https_proxy: PROXY, NO_PROXY: 'x.test' })
  t.match(await desk.runCommand([], SHOW_PROXIES), { code: 1, stdout: '' })
})

void tap.test(
  'docker: the proxies of its configuration stay outside',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    mkdirSync(path.join(desk.home, '.docker'))
    const proxies = {
      default: {
        httpProxy: PROXY,
        httpsProxy: PROXY,
        noProxy: 'x.test',
        allProxy: PROXY,
        ftpProxy: PROXY,
      },
    }
    writeFileSync(path.join(desk.home, '.docker/config.json'), JSON.stringify({ proxies }))
    t.match(await desk.runCommand([], SHOW_PROXIES), { code: 1, stdout: '' })
  },
)

onBoth('proxies of the caller stay outside', async (t, desk) => {
  const env = { HTTP_PROXY: PROXY, HTTPS_PROXY: PROXY, http_proxy: PROXY, https_proxy: PROXY }
  const args = ['run', '--image', TEST_IMAGE, '--', ...SHOW_PROXIES]
  t.match(await desk.run(args, { env }), { code: 1, stdout: '' })
})

void tap.test('a removal kills at once', async (t) => {
  for (const [skip, runtime] of [
    [NO_ENGINE, testRuntime],
    [NO_PODMAN, podmanRuntime],
  ] as const) {
    await t.test({ skip }, async (part) => {
      if (runtime === podmanRuntime) loadIntoPodman()
      const name = uniqueName('deaf')
      const say = (...args: readonly string[]) => runtimeCommand(runtime(), args)
      part.teardown(() => say('rm', '-f', '-v', name))
      // The first process of a container is deaf to SIGTERM.
      await say('run', '-d', '--network=none', '--name', name, TEST_IMAGE, 'sleep', '60')
      part.strictSame(await createDockerDriver(runtime()).remove([name], 6_000), [])
      part.match(await say('inspect', name), { code: /^[1-9]/ })
    })
  }
})
