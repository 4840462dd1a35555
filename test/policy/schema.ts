import { readFileSync } from 'node:fs'
import tap from 'tap'
import {
  policyJsonSchema,
  policySchema,
  portItem,
  presetJsonSchema,
  presetSchema,
} from '../../src/policy/schema.ts'

const read = (file: string) => readFileSync(new URL(`../../docs/${file}`, import.meta.url), 'utf8')

void tap.test('the schemas in docs are those of the code', async (t) => {
  t.equal(read('policy.schema.json'), `${JSON.stringify(policyJsonSchema(), null, 2)}\n`)
  t.equal(read('preset.schema.json'), `${JSON.stringify(presetJsonSchema(), null, 2)}\n`)
})

void tap.test('no key passes that is not known', async (t) => {
  t.ok(policySchema.safeParse({}).success)
  for (const key of ['report', 'upstream', 'rule', 'constructor', '__proto__']) {
    const value = Object.fromEntries([[key, 1]]) as unknown
    t.notOk(policySchema.safeParse(value).success, key)
  }
})

void tap.test('a preset cannot loosen a check', async (t) => {
  const preset = { name: 'x', description: 'y', rules: [{ host: 'a.test', note: 'z' }] }
  t.ok(presetSchema.safeParse(preset).success)
  for (const key of ['mode', 'tls', 'limits', 'quiet', 'ports', 'presets', 'version']) {
    t.notOk(presetSchema.safeParse({ ...preset, [key]: 'x' }).success, key)
  }
  for (const key of ['private', 'wide', 'until']) {
    t.notOk(
      presetSchema.safeParse({ ...preset, rules: [{ host: 'a.test', note: 'z', [key]: true }] })
        .success,
      key,
    )
  }
})

void tap.test('an entry of a list of ports is a number, a range or a star', async (t) => {
  for (const good of [1, 65535, '80', '80-90', '*'])
    t.ok(portItem.safeParse(good).success, String(good))
  for (const bad of [0, 65536, 1.5, -1, NaN, '', 'x', '80-', null, true, [], '80,90']) {
    t.notOk(portItem.safeParse(bad).success, String(bad))
  }
})
