import tap from 'tap'
import { NO_ENGINE } from '../support/docker.ts'
import { ordinaryUser, runBattery } from '../support/escape/battery.ts'
import { startWorld } from '../support/escape/far-side.ts'
import { assertLoose, triedIn } from '../support/escape/loose.ts'
import { TECHNIQUES } from '../support/escape/techniques.ts'

// The proof of the battery: without a seal the same techniques get out, and the far sides hear them.

const SKIP = NO_ENGINE || (process.getuid?.() === 0 ? false : 'only root becomes another user')

tap.setTimeout(240_000)

void tap.test('an advisory run keeps nobody in', { skip: SKIP }, async (t) => {
  const world = await startWorld(t)
  const techniques = triedIn('advisory', TECHNIQUES)
  t.ok(techniques.filter((one) => one.advisory === 'out').length >= 20, 'enough of them get out')
  for (const [who, caller] of [
    ['root', undefined],
    ['an ordinary user', ordinaryUser()],
  ] as const) {
    await t.test(`as ${who}`, async (part) => {
      const battery = await runBattery(part, {
        world,
        door: 'advisory',
        ...(caller && { caller }),
        techniques,
      })
      const { attempts, welcomed, outside, host, neighbour } = battery
      assertLoose(part, 'advisory', techniques, attempts)
      part.strictSame(
        welcomed.map(({ text }) => text),
        ['welcome\n', 'welcome\n'],
      )
      for (const contact of [
        'tcp 7000',
        'tcp 22',
        'tcp 53',
        'tcp 8080',
        'udp 53',
        'udp 7000',
        'tls denied.test',
      ]) {
        part.ok(outside.includes(contact), `the outside world heard ${contact}`)
      }
      part.ok(
        outside.some((line) => line.endsWith('/info/refs?service=git-upload-pack')),
        'and git',
      )
      part.strictSame([...new Set(host)].toSorted(), ['tcp', 'udp'], 'and this machine did too')
      part.equal(neighbour.after, neighbour.before, 'the other run is as it was all the same')
    })
  }
})
