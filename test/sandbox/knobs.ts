import tap from 'tap'
import { KNOBS, readKnobs } from '../../src/sandbox/knobs.ts'

const DEFAULTS = {
  pull: { name: 'pull', knob: 'ITERION_SANDBOX_PULL_TIMEOUT', boundMs: 600_000 },
  build: { name: 'build', knob: 'ITERION_SANDBOX_BUILD_TIMEOUT', boundMs: 1_800_000 },
  create: { name: 'create', knob: 'ITERION_SANDBOX_CREATE_TIMEOUT', boundMs: 120_000 },
  door: { name: 'door', knob: 'ITERION_SANDBOX_DOOR_TIMEOUT', boundMs: 30_000 },
  post_create: {
    name: 'post_create',
    knob: 'ITERION_SANDBOX_POST_CREATE_TIMEOUT',
    boundMs: 1_800_000,
  },
}

void tap.test('an environment without knobs gives the defaults and no warning', async (t) => {
  t.strictSame(readKnobs({}), { knobs: DEFAULTS, warnings: [] })
  t.strictSame(readKnobs({ ITERION_SANDBOX_PULL_TIMEOUT: undefined }).warnings, [])
})

void tap.test('each knob moves its own phase and no other', async (t) => {
  for (const { name, knob } of KNOBS) {
    const { knobs, warnings } = readKnobs({ [knob]: '1m30s' })
    t.strictSame(knobs, { ...DEFAULTS, [name]: { name, knob, boundMs: 90_000 } })
    t.strictSame(warnings, [])
  }
})

void tap.test('a bound is whole milliseconds, never none', async (t) => {
  const pullOf = (text: string) => readKnobs({ ITERION_SANDBOX_PULL_TIMEOUT: text }).knobs.pull
  t.equal(pullOf('1ns').boundMs, 1)
  t.equal(pullOf('1.5ms').boundMs, 2)
  t.equal(pullOf('24h').boundMs, 86_400_000)
})

void tap.test('a bad value is one line, and the default holds', async (t) => {
  for (const text of ['5', '-1m', 'abc', '0', '0s', '', '24h1ns', '48h', '1 m', '0.1ns']) {
    for (const { knob } of KNOBS) {
      const { knobs, warnings } = readKnobs({ [knob]: text })
      t.strictSame(knobs, DEFAULTS)
      t.equal(warnings.length, 1)
      t.match(warnings[0], `${knob}=${JSON.stringify(text)} is no duration`)
    }
  }
  const all = readKnobs(Object.fromEntries(KNOBS.map(({ knob }) => [knob, 'x'])))
  t.strictSame(
    all.warnings.map((line) => line.split('; ')[1]),
    [
      'the default 10m applies',
      'the default 30m applies',
      'the default 2m applies',
      'the default 30s applies',
      'the default 30m applies',
    ],
  )
})

void tap.test('a value is shown on one line, whatever it holds', async (t) => {
  const value = `1m\n\u001b[31m\u202e${'x'.repeat(1000)}`
  const [line = ''] = readKnobs({ ITERION_SANDBOX_DOOR_TIMEOUT: value }).warnings
  t.match(line, String.raw`"1m\n\u001b[31m\u{202e}xxx`)
  t.notMatch(line, /[\p{Cc}\p{Cf}]/u)
  t.ok(line.length < 300)
})
