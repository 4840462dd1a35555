import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import path from 'node:path'
import tap, { type Test } from 'tap'
import { RUN_LABEL } from '../../src/sandbox/labels.ts'
import { docker, TEST_IMAGE, uniqueName } from '../support/docker.ts'
import { untilSo } from '../support/door.ts'
import { loadIntoPodman, NO_PODMAN, openPodmanDesk, podman } from '../support/podman.ts'
import type { Desk } from '../support/sandbox-run.ts'

// What becomes of a container of podman when the run ends, however it ends.

async function containersOf(id: string): Promise<string[]> {
  const stdout = await podman('ps', '-aq', '--no-trunc', '--filter', `label=${RUN_LABEL}=${id}`)
  return stdout.split('\n').filter((line) => line !== '')
}

/** Starts a run that stays, and waits until its command is up. */
async function startRun(desk: Desk, image = TEST_IMAGE) {
  const running = desk.start(['run', '--image', image, '--', 'sh', '-c', 'echo up; sleep 300'])
  await running.hears('up')
  return running
}

/** An image with a volume, in podman alone. */
async function imageWithVolume(t: Test, desk: Desk): Promise<string> {
  const name = `${uniqueName('volume')}:latest`
  const mark = `touch ${desk.workspace}/`
  writeFileSync(
    path.join(desk.folder, 'Dockerfile'),
    `FROM ${TEST_IMAGE}
ENTRYPOINT ["/bin/sh", "-c", "${mark}entrypoint; exec \\"$@\\"", "sh"]
CMD ["/bin/sh", "-c", "${mark}cmd"]
HEALTHCHECK --interval=1s CMD ${mark}health
VOLUME /data
`,
  )
  await docker('build', '-q', '-t', name, '-f', `${desk.folder}/Dockerfile`, desk.tempRoot)
  t.teardown(() => docker('rmi', '-f', name))
  loadIntoPodman(name)
  t.teardown(() => podman('rmi', '-f', name))
  return name
}

void tap.test(
  'nothing of the image runs by itself, and its volumes go with the container',
  { skip: NO_PODMAN },
  async (t) => {
    const desk = openPodmanDesk(t)
    const image = await imageWithVolume(t, desk)
    const before = await podman('volume', 'ls', '-q')
    const script = 'echo x > /data/x; sleep 2; ls'
    const result = await desk.run(['run', '--image', image, '--', 'sh', '-c', script])
    t.match(result, { code: 0, stdout: '' })
    t.equal(await podman('volume', 'ls', '-q'), before)
    t.strictSame(await containersOf(desk.record().id), [])
    // Killed, the container is removed by what podman left beside it.
    const running = await startRun(desk, image)
    t.not(await podman('volume', 'ls', '-q'), before)
    running.child.kill('SIGKILL')
    await running.done
    await untilSo(async () => (await podman('volume', 'ls', '-q')) === before)
  },
)

void tap.test(
  'a killed orchestrator ends its container at once',
  { skip: NO_PODMAN },
  async (t) => {
    const desk = openPodmanDesk(t)
    const running = await startRun(desk)
    const { id } = desk.record()
    t.equal((await containersOf(id)).length, 1)
    running.child.kill('SIGKILL')
    await running.done
    await untilSo(async () => (await containersOf(id)).length === 0)
    t.match(desk.record(), { status: 'running' }, 'nobody was left to write it down')
    const { stdout } = await desk.run(['reap', '--json'])
    t.match(JSON.parse(stdout), { runs: [id], left_behind: [] })
    t.match(desk.record(), { status: 'failed_resumable', failure_code: 'RUN_ORPHANED' })
    t.strictSame(desk.leftovers(), [])
  },
)

void tap.test('what stands still is removed by the reaper', { skip: NO_PODMAN }, async (t) => {
  const desk = openPodmanDesk(t)
  const image = await imageWithVolume(t, desk)
  const before = await podman('volume', 'ls', '-q')
  const running = await startRun(desk, image)
  const { id, container } = desk.record()
  // It does not see its pipe close.
  await podman('pause', container ?? '')
  running.child.kill('SIGKILL')
  await once(running.child, 'exit')
  t.strictSame(await containersOf(id), [container])
  const { stdout } = await desk.run(['reap', '--json'])
  t.match(JSON.parse(stdout), { containers: [container], runs: [id], left_behind: [] })
  t.strictSame(await containersOf(id), [])
  t.equal(await podman('volume', 'ls', '-q'), before)
  // What held the command's output ended with the container.
  await running.done
  t.strictSame(processesWith(container ?? ''), [])
})

void tap.test('a run that lives is not reaped', { skip: NO_PODMAN }, async (t) => {
  const desk = openPodmanDesk(t)
  const running = await startRun(desk)
  const { stdout } = await desk.run(['reap', '--json'])
  t.match(JSON.parse(stdout), { containers: [], runs: [], left_behind: [], git_metadata: [] })
  t.equal((await containersOf(desk.record().id)).length, 1)
  running.child.kill('SIGTERM')
  t.match(await running.done, { code: 143 })
})

void tap.test('a container that is gone fails the run', { skip: NO_PODMAN }, async (t) => {
  const desk = openPodmanDesk(t)
  const running = await startRun(desk)
  await podman('rm', '-f', desk.record().container ?? '')
  const { code, stderr } = await running.done
  t.equal(code, 125)
  t.match(stderr, /SANDBOX_LOST|NODE_FAILED/)
  t.match(desk.record(), { status: 'failed_resumable', container: null })
  t.strictSame(desk.leftovers(), [])
})

void tap.test('nothing of the first process is kept', { skip: NO_PODMAN }, async (t) => {
  const desk = openPodmanDesk(t)
  const running = await startRun(desk)
  const { container, scratch } = desk.record()
  const inspected = await podman('inspect', '--type', 'container', container ?? '')
  t.match(JSON.parse(inspected), [{ HostConfig: { LogConfig: { Type: 'none' } } }])
  t.notOk(readdirSync(scratch ?? '').includes('cid'), 'the file with the id is not needed any more')
  running.child.kill('SIGTERM')
  await running.done
})

void tap.test('an image that is not here and cannot be had', { skip: NO_PODMAN }, async (t) => {
  const desk = openPodmanDesk(t)
  const { code, stderr } = await desk.run(['run', '--image', '127.0.0.1:9/none:1', '--', 'true'])
  t.equal(code, 125)
  t.match(stderr, /SANDBOX_IMAGE_UNAVAILABLE/)
  t.match(desk.record(), { status: 'failed_resumable', retry_class: 'transient' })
})

void tap.test('a pull that hangs is ended at its bound', { skip: NO_PODMAN }, async (t) => {
  const desk = openPodmanDesk(t)
  const registry = createServer(() => undefined)
  await new Promise<void>((resolve) => registry.listen(0, '127.0.0.1', resolve))
  t.teardown(() => registry.close())
  const { port } = registry.address() as { port: number }
  const image = `127.0.0.1:${port}/never:1`
  const { code, stderr } = await desk.run(['run', '--image', image, '--', 'true'], {
    env: { ITERION_SANDBOX_PULL_TIMEOUT: '1s' },
  })
  t.equal(code, 125)
  t.match(stderr, /SANDBOX_SETUP_TIMEOUT.*ITERION_SANDBOX_PULL_TIMEOUT/)
  t.match(desk.record(), { status: 'failed_resumable' })
  t.strictSame(processesWith(image), [])
})

/** The command lines of this machine that hold a text. */
function processesWith(text: string): string[] {
  return readdirSync('/proc').flatMap((pid) => {
    const file = `/proc/${pid}/cmdline`
    if (!/^\d+$/.test(pid) || !existsSync(file)) return []
    try {
      const line = readFileSync(file, 'latin1').replaceAll('\0', ' ')
      return line.includes(text) ? [line] : []
    } catch {
      return []
    }
  })
}
