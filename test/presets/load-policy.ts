import path from 'node:path'
import tap from 'tap'
import { createCatalog } from '../../src/presets/catalog.ts'
import { loadPolicy, readPolicy } from '../../src/presets/load-policy.ts'
import { ruleOf } from '../support/policy-of.ts'
import { problemsOf } from '../support/problems-of.ts'

void tap.test('a file is read, joined with its presets and compiled', async (t) => {
  const dir = t.testdir({
    'policy.yaml': 'presets: [./own.yaml]\nrules: ["!b.own.test"]\ntests: {deny: [b.own.test]}\n',
    'own.yaml': 'name: own\ndescription: For a test.\nrules: ["*.own.test"]\n',
  })
  const file = path.join(dir, 'policy.yaml')
  const { policy, tests } = loadPolicy(file, { rules: [ruleOf('hand.test')] })
  t.strictSame(policy.rules.map(({ text, origin }) => [text, origin.source]), [
    ['*.own.test', 'preset:own'],
    ['!b.own.test', file],
    ['hand.test', 'policy.yaml'],
  ])
  t.equal(tests.length, 1)
  t.match(readPolicy(file, createCatalog()), { file, presets: [{ name: './own.yaml' }] })
})

void tap.test('an unknown preset is told with all else that is wrong', async (t) => {
  const dir = t.testdir({ 'policy.yaml': 'presets: [lllm]\nrules: ["a/b"]\n' })
  const catalog = createCatalog()
  const problems = problemsOf(() => loadPolicy(path.join(dir, 'policy.yaml'), { catalog }))
  t.match(problems, [{ code: 'PRESET_UNKNOWN' }, { code: 'POLICY_PATTERN' }])
  t.throws(() => loadPolicy(path.join(dir, 'missing.yaml')), { code: 'FILE_UNREADABLE' })
})
