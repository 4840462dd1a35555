import tap from 'tap'
import { buildProjectImage, NO_ENGINE } from '../support/docker.ts'
import { ordinaryUser, runBattery } from '../support/escape/battery.ts'
import { startWorld } from '../support/escape/far-side.ts'
import { assertBlocked, assertSealed } from '../support/escape/sealed.ts'
import { TECHNIQUES } from '../support/escape/techniques.ts'

const SKIP = NO_ENGINE || (process.getuid?.() === 0 ? false : 'only root becomes another user')

tap.setTimeout(240_000)

void tap.test('nothing gets out past the sidecar door', { skip: SKIP }, async (t) => {
  await buildProjectImage()
  const world = await startWorld(t)
  for (const [who, place] of [
    ['root', {}],
    ['an ordinary user, with host state', { caller: ordinaryUser(), hostState: 'auto' }],
    ['root inside, started by an ordinary user', { caller: ordinaryUser(), user: 'root' }],
  ] as const) {
    await t.test(`as ${who}`, async (part) => {
      const battery = await runBattery(part, {
        world,
        door: 'sidecar',
        ...place,
        techniques: TECHNIQUES,
        whileItRuns: (blocked) => assertBlocked(part, blocked, world),
      })
      assertSealed(part, 'sidecar', battery)
    })
  }
})
