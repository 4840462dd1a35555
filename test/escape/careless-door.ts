import tap from 'tap'
import { NO_ENGINE } from '../support/docker.ts'
import { runBattery } from '../support/escape/battery.ts'
import { startWorld } from '../support/escape/far-side.ts'
import { TECHNIQUES } from '../support/escape/techniques.ts'
import { DISTURBING, UNAWARE } from '../support/escape/unaware-techniques.ts'

// The proof of the techniques past the proxy port: behind a door whose policy denies next to nothing they get out.

const SKIP = NO_ENGINE || (process.getuid?.() === 0 ? false : 'only root places this door')

tap.setTimeout(240_000)

void tap.test('a door is as good as its policy', { skip: SKIP }, async (t) => {
  const world = await startWorld(t)
  const techniques = TECHNIQUES.filter((one) => UNAWARE.includes(one) || DISTURBING.includes(one))
  const names = ['denied.test', 'stolen-data.denied.test', 'sub.allowed.test']
  const battery = await runBattery(t, {
    world,
    door: 'netns',
    techniques,
    network: `{ tls: { sni: off }, rules: [{ host: "**", wide: true, ports: [22, 25, 53, 80, 443, 7000, 8080] }] }`,
    args: names.flatMap((name) => ['--resolve', `${name}:${world.address}`]),
  })
  const expected = techniques.filter(({ careless }) => careless === 'out').map(({ name }) => name)
  t.strictSame(
    battery.attempts.filter(({ out }) => out).map(({ name }) => name),
    expected,
  )
  for (const { name, out, text } of battery.attempts)
    if (out !== expected.includes(name)) t.comment(`${name}: ${text}`)
})
