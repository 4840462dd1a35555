import tap from 'tap'
import { NO_ENGINE } from '../support/docker.ts'
import { runBattery } from '../support/escape/battery.ts'
import { startWorld } from '../support/escape/far-side.ts'
import { assertBlocked, assertSealed } from '../support/escape/sealed.ts'
import { TECHNIQUES } from '../support/escape/techniques.ts'

const SKIP = NO_ENGINE || (process.getuid?.() === 0 ? false : 'only root places this door')

tap.setTimeout(240_000)

void tap.test('nothing gets out past the netns door', { skip: SKIP }, async (t) => {
  const world = await startWorld(t)
  for (const [who, place] of [
    ['root', {}],
    ['root, with host state', { hostState: 'auto' }],
    ['an ordinary user', { user: '4242:4242' }],
  ] as const) {
    await t.test(`as ${who}`, async (part) => {
      const battery = await runBattery(part, {
        world,
        door: 'netns',
        ...place,
        techniques: TECHNIQUES,
        whileItRuns: (blocked) => assertBlocked(part, blocked, world),
      })
      assertSealed(part, 'netns', battery)
    })
  }
})
