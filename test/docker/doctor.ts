import { createHash } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import tap, { type Test } from 'tap'
import { buildProjectImage, docker, NO_ENGINE, TEST_IMAGE } from '../support/docker.ts'
import { doctor, find, programDocker, sandboxWorkflow as workflow } from '../support/doctor.ts'
import { openDesk } from '../support/sandbox-run.ts'
import { NO_USERS, openUserDesk } from '../support/users.ts'

/** A registry with one image, `there:1`. Answers its name. */
async function openRegistry(t: Test): Promise<string> {
  const digest = (text: string) => `sha256:${createHash('sha256').update(text).digest('hex')}`
  const config = JSON.stringify({
    architecture: 'amd64',
    os: 'linux',
    rootfs: { type: 'layers', diff_ids: [] },
  })
  const type = 'application/vnd.docker.distribution.manifest.v2+json'
  const manifest = JSON.stringify({
    schemaVersion: 2,
    mediaType: type,
    config: {
      mediaType: 'application/vnd.docker.container.image.v1+json',
      size: config.length,
      digest: digest(config),
    },
    layers: [],
  })
  const server = createServer((request, response) => {
    const { url = '' } = request
    if (url === '/v2/') response.end('{}')
    else if (url === '/v2/there/manifests/1') {
      response.setHeader('content-type', type)
      response.setHeader('docker-content-digest', digest(manifest))
      response.end(manifest)
    } else if (url.startsWith('/v2/there/blobs/')) response.end(config)
    else {
      response.statusCode = url.startsWith('/v2/broken/') ? 500 : 404
      response.end('{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}')
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  return `127.0.0.1:${(server.address() as AddressInfo).port}`
}

void tap.test(
  'a machine that is well, and a workflow that would start',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    const machine = await desk.run(['doctor'])
    t.match(machine, { code: 0, stdout: /^pass {2}daemon .*docker \d/m })
    const file = workflow(desk, { image: TEST_IMAGE, network: { presets: ['iterion-default'] } })
    const plain = await desk.run(['doctor', file])
    t.match(plain, { code: 0, stdout: /^pass {2}door netns .*it was not tried$/m })
    t.match(plain.stdout, /^pass {2}policy .*allowlist, \d+ rules$/m)
    const strict = await desk.run(['doctor', '--strict', file])
    t.match(strict, { code: 0, stdout: /^pass {2}door netns .*placed and proven$/m })
    t.equal(await docker('ps', '-aq', '--filter', 'name=iterion-doctor-'), '', 'nothing is left')
    t.strictSame(desk.leftovers(), [])
    t.strictSame(
      readdirSync(desk.home).filter((name) => name === '.iterion'),
      [],
      'nothing is recorded',
    )
  },
)

void tap.test(
  'the sidecar door is tried, by a user who is not root too',
  { skip: NO_ENGINE || NO_USERS },
  async (t) => {
    const image = await buildProjectImage()
    const desk = openUserDesk(t)
    const words = ['--strict', '--sidecar-image', image]
    const file = workflow(desk, { image: TEST_IMAGE, network: { rules: [] } })
    const report = await doctor(desk, [...words, file])
    t.equal(report.code, 0)
    t.match(find(report, 'door sidecar'), { status: 'pass', detail: 'placed and proven' })
    t.match(find(report, 'door netns'), { status: 'warn', detail: /needs root/ })
    const without = await doctor(desk, ['--sidecar-image', 'iterion-nowhere:1', file])
    t.equal(without.code, 1)
    t.strictSame(without.short, ['fail door netns', 'fail door sidecar'])
    t.match(find(without, 'door sidecar'), { remedy: /^docker build -t iterion-nowhere:1/ })
    const open = await doctor(desk, [workflow(desk, { image: TEST_IMAGE })])
    t.equal(open.code, 0, 'an open run needs no door')
    const alone = await doctor(desk, words)
    t.match(
      find(alone, 'door sidecar'),
      { detail: 'placed and proven' },
      'in the image of the relay',
    )
  },
)

void tap.test(
  'an image that is not here: its registry is asked by --strict alone',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    const registry = await openRegistry(t)
    const look = (name: string, ...words: string[]) =>
      doctor(desk, [...words, workflow(desk, { image: `${registry}/${name}` })])
    const plain = await look('there:1')
    t.match(
      { code: plain.code, check: find(plain, 'image') },
      { code: 0, check: { status: 'warn' } },
    )
    const there = await look('there:1', '--strict')
    t.match(
      { code: there.code, check: find(there, 'image') },
      { code: 0, check: { status: 'pass', detail: /its registry has it/ } },
    )
    const absent = await look('there:2', '--strict')
    t.match(
      { code: absent.code, check: find(absent, 'image') },
      { code: 1, check: { status: 'fail', remedy: /correct its name/ } },
    )
    const broken = await look('broken/x:1', '--strict')
    t.match(
      { code: broken.code, check: find(broken, 'image') },
      { code: 0, check: { status: 'warn' } },
      'who cannot be asked is no reason',
    )
  },
)

void tap.test('what a workflow asks for is judged, all of it', { skip: NO_ENGINE }, async (t) => {
  const desk = openDesk(t)
  const look = async (sandbox: object, more: object = {}, env = {}) =>
    doctor(desk, [workflow(desk, sandbox, more)], env)
  const IMAGE = { image: TEST_IMAGE }
  const cases: readonly (readonly [
    sandbox: object,
    more: object,
    failed: string,
    detail: RegExp,
  ])[] = [
    [
      { ...IMAGE, mounts: ['/var/run/docker.sock:/s', '/:/h'] },
      {},
      'safety',
      /socket of a container engine.*; mounts\[1\]/,
    ],
    [{ ...IMAGE, nope: 1 }, {}, 'spec', /w\.yaml:1:\d+: unknown key "nope"/],
    [{ ...IMAGE, network: { presets: ['nobody'] } }, {}, 'spec', /nobody.*PRESET_UNKNOWN/],
    [
      IMAGE,
      { secrets: [{ name: 'A', as: 'env', from: { env: 'NO' } }] },
      'secrets',
      /NO, which is not set/,
    ],
    [IMAGE, { nodes: [{ id: 'a', backend: 'codex', command: 'x' }] }, 'backends', /codex/],
  ]
  for (const [sandbox, more, failed, detail] of cases) {
    const report = await look(sandbox, more)
    t.equal(report.code, 1, failed)
    t.ok(report.short.includes(`fail ${failed}`), report.short.join())
    t.match(find(report, failed)?.detail, detail)
    t.ok(find(report, failed)?.remedy, 'what to do')
  }
  const floor = await look(IMAGE, {}, { ITERION_SANDBOX_FLOOR: 'high' })
  t.match(find(floor, 'spec'), { status: 'fail', detail: /ITERION_SANDBOX_FLOOR="high"/ })
  const knobs = await look(
    IMAGE,
    {},
    { ITERION_SANDBOX_PULL_TIMEOUT: '5', ITERION_SANDBOX_FLOOR: 'auto' },
  )
  t.equal(knobs.code, 0, 'a warning changes no exit code')
  t.match(find(knobs, 'knobs'), { status: 'warn', detail: /PULL_TIMEOUT="5"/ })
  t.match(find(knobs, 'variables'), {
    detail: /ITERION_SANDBOX_FLOOR=auto, ITERION_SANDBOX_PULL_TIMEOUT=5/,
  })
  const none = await doctor(desk, ['--sandbox', 'none', workflow(desk, IMAGE)])
  t.match({ code: none.code, check: find(none, 'sandbox') }, { code: 0, check: { status: 'warn' } })
})

void tap.test(
  'no runtime, no engine, an engine that does not answer',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    const file = workflow(desk, { image: TEST_IMAGE })
    const empty = { PATH: path.join(desk.folder, 'nothing') }
    const without = await doctor(desk, [file], empty)
    t.equal(without.code, 1)
    t.match(find(without, 'runtime'), { status: 'fail', remedy: 'install docker or podman' })
    const other = await doctor(desk, ['--target', 'local', file], empty)
    t.match(
      { code: other.code, check: find(other, 'runtime') },
      { code: 0, check: { status: 'warn' } },
    )
    const down = await doctor(desk, [file], { DOCKER_HOST: `unix://${desk.folder}/no.sock` })
    t.match(
      { code: down.code, check: find(down, 'daemon') },
      { code: 1, check: { status: 'fail', remedy: /start the engine/ } },
    )

    // The shell is gone for a `sleep` that is deaf to SIGTERM.
    const silent = programDocker(desk, 'trap "" TERM; exec sleep 60')
    const began = Date.now()
    const bounded = await doctor(desk, [file], {
      PATH: `${silent}:/usr/bin:/bin`,
      ITERION_SANDBOX_DOCTOR_TIMEOUT: '300ms',
    })
    t.ok(Date.now() - began < 20_000, 'every probe is bounded')
    t.match(
      { code: bounded.code, check: find(bounded, 'daemon') },
      { code: 1, check: { status: 'fail', detail: /^no answer in 0.3 s/ } },
    )
    t.match(await desk.run(['doctor', '--target', 'moon']), { code: 2 })
    t.match(await desk.run(['doctor', 'a', '--', 'b']), { code: 2 })
  },
)

void tap.test(
  'a run is examined before it starts if that is asked for',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    const file = workflow(
      desk,
      { image: TEST_IMAGE, network: { rules: [] } },
      { nodes: [{ id: 'a', command: 'echo ran' }] },
    )
    const on = { ITERION_SANDBOX_PREFLIGHT: '1' }
    const good = await desk.run(['run', file], { env: on })
    t.match(good, { code: 0, stdout: 'ran\n', stderr: /preflight: warning: door sidecar: / })
    const bad = workflow(desk, { image: TEST_IMAGE, mounts: ['/:/h'] })
    const refused = await desk.run(['run', bad], {
      env: { ...on, ITERION_SANDBOX_PREFLIGHT: 'Yes' },
    })
    t.match(refused, {
      code: 125,
      stdout: '',
      stderr: /fail safety: .*; remedy: [\s\S]*SANDBOX_PREFLIGHT_FAILED/,
    })
    t.equal(desk.records().length, 1, 'nothing is recorded')
    const off = await desk.run(['run', bad], { env: { ITERION_SANDBOX_PREFLIGHT: '0' } })
    t.match(off, { code: 125, stderr: /SANDBOX_SPEC_UNSAFE/ })
    const odd = await desk.run(['run', file], { env: { ITERION_SANDBOX_PREFLIGHT: 'maybe' } })
    t.match(odd, { code: 125, stderr: /ITERION_SANDBOX_PREFLIGHT="maybe"/ })
  },
)
