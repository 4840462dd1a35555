import { writeFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { buildProjectImage, docker, NO_ENGINE, TEST_IMAGE } from '../support/docker.ts'
import { openDesk } from '../support/sandbox-run.ts'

void tap.test(
  'a run whose door is gone does not go on as if it were fine',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    const image = await buildProjectImage()
    writeFileSync(path.join(desk.workspace, 'policy.yaml'), 'rules: []\n')
    const options = ['--policy', 'policy.yaml', '--door', 'sidecar', '--sidecar-image', image]
    const running = desk.start([
      'run',
      ...options,
      '--image',
      TEST_IMAGE,
      '--',
      'sh',
      '-c',
      'echo up; sleep 300',
    ])
    await running.hears('up')
    const { container } = desk.record()
    const names = await docker('ps', '--format', '{{.Names}} {{.Networks}} {{.ID}}', '--no-trunc')
    const doors = names.split('\n').filter((line) => line.startsWith('iterion-egress-door-'))
    for (const line of doors) {
      const id = line.split(' ').at(-1) ?? ''
      const network = await docker('inspect', '-f', '{{.HostConfig.NetworkMode}}', id)
      if (network === `container:${container}`) await docker('kill', id)
    }
    t.match(await running.done, {
      code: 125,
      stderr: /SANDBOX_LOST.*the door of the run has ended/,
    })
    t.match(desk.record(), { status: 'failed_resumable', failure_code: 'SANDBOX_LOST' })
    t.strictSame(desk.leftovers(), [])
  },
)
