import tap from 'tap'
import { buildProjectImage } from '../support/docker.ts'
import { runBattery } from '../support/escape/battery.ts'
import { startWorld } from '../support/escape/far-side.ts'
import { assertSealed } from '../support/escape/sealed.ts'
import { TECHNIQUES } from '../support/escape/techniques.ts'
import { loadIntoPodman, NO_PODMAN, podmanEnv } from '../support/podman.ts'

tap.setTimeout(300_000)

void tap.test('nothing gets out of a container of podman', { skip: NO_PODMAN }, async (t) => {
  const world = await startWorld(t)
  loadIntoPodman()
  loadIntoPodman(await buildProjectImage())
  const env = { ITERION_SANDBOX_RUNTIME: 'podman', ...podmanEnv() }
  for (const door of ['netns', 'sidecar'] as const) {
    await t.test(`past the ${door} door`, async (part) => {
      const battery = await runBattery(part, { world, door, env, techniques: TECHNIQUES })
      assertSealed(part, door, battery)
    })
  }
})
