import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { NO_ENGINE, TEST_IMAGE } from '../support/docker.ts'
import { doctor, find, programDocker, sandboxWorkflow as workflow } from '../support/doctor.ts'
import { openDesk } from '../support/sandbox-run.ts'

void tap.test(
  'a run without a sandbox, and one on another machine',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    const down = { DOCKER_HOST: `unix://${desk.folder}/no.sock` }
    const bare = workflow(desk, { image: TEST_IMAGE, network: { rules: [] } })
    const asked = await doctor(desk, ['--sandbox', 'none', bare], down)
    t.match({ code: asked.code, daemon: find(asked, 'daemon') }, { code: 0, daemon: undefined })
    const env = { ...down, ITERION_SANDBOX_PREFLIGHT: '1' }
    const ran = await desk.run(['run', '--sandbox', 'none', bare], { env, input: '' })
    t.equal(ran.code, 0, ran.stderr)
    const secrets = [{ name: 'A', as: 'env', from: { env: 'NO' } }]
    const without = await doctor(desk, ['--sandbox', 'none', workflow(desk, {}, { secrets })])
    t.match(
      { code: without.code, short: without.short },
      { code: 1, short: ['warn sandbox', 'fail secrets'] },
    )

    const empty = { PATH: path.join(desk.folder, 'nothing') }
    const elsewhere = (sandbox: object, more = {}) =>
      doctor(desk, ['--target', 'local', workflow(desk, sandbox, more)], empty)
    const unsafe = await elsewhere({ image: TEST_IMAGE, mounts: ['/etc:/e'] })
    t.match(
      { code: unsafe.code, check: find(unsafe, 'safety') },
      { code: 1, check: { status: 'fail' } },
    )
    const codex = await elsewhere(
      { image: TEST_IMAGE },
      { nodes: [{ id: 'a', backend: 'codex', command: 'x' }] },
    )
    t.match(
      { code: codex.code, check: find(codex, 'backends') },
      { code: 1, check: { status: 'fail' } },
    )
    t.match(await elsewhere({ image: TEST_IMAGE }, { secrets }), { code: 1 })
  },
)

void tap.test(
  'who ends it is heard, and nothing is left of a trial',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    const file = workflow(desk, { image: TEST_IMAGE, network: { rules: [] } })
    const silent = programDocker(desk, 'case $1 in version) echo 1;; *) exec sleep 60;; esac')
    const env = { PATH: `${silent}:/usr/bin:/bin`, ITERION_SANDBOX_DOCTOR_TIMEOUT: '60s' }
    for (const words of [
      ['doctor', '--strict', file],
      ['plan', file],
    ]) {
      const running = desk.start(words, { env })
      await new Promise((resolve) => setTimeout(resolve, 1_000))
      const began = Date.now()
      running.child.kill('SIGINT')
      t.match(await running.done, { code: 1, stderr: /ended by SIGINT/ })
      t.ok(Date.now() - began < 10_000, 'at once')
    }
    const preflight = desk.start(['run', file], { env: { ...env, ITERION_SANDBOX_PREFLIGHT: '1' } })
    await new Promise((resolve) => setTimeout(resolve, 1_000))
    preflight.child.kill('SIGTERM')
    t.match(await preflight.done, { code: 143 })
    t.strictSame(desk.leftovers(), [])
  },
)

void tap.test(
  'no program of an image that a repository chose is started for a trial',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    execFileSync('git', ['init', '--quiet', desk.workspace])
    writeFileSync(
      path.join(desk.workspace, '.devcontainer.json'),
      JSON.stringify({ image: TEST_IMAGE }),
    )
    const file = path.join(desk.workspace, 'w.yaml')
    writeFileSync(file, JSON.stringify({ name: 'w', nodes: [{ id: 'a', command: 'true' }] }))
    const report = await doctor(desk, ['--strict', '--sidecar-image', 'iterion-nowhere:1', file])
    t.match(find(report, 'door netns'), { status: 'pass', detail: /it was not tried/ })
  },
)
