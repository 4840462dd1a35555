import tap from 'tap'
import { decide } from '../../src/policy/decide.ts'
import { parsePolicy } from '../../src/policy/parse.ts'
import { createCatalog } from '../../src/presets/catalog.ts'
import { resolveNetwork } from '../../src/sandbox/network-default.ts'
import { composeNetwork, loadRunPolicy } from '../../src/sandbox/run-policy.ts'
import { NOW, targetOf } from '../support/policy-of.ts'
import { blockOf } from '../support/sandbox-block.ts'

const REPOSITORY = { file: '.devcontainer/devcontainer.json' }
const policy = (text: string) => parsePolicy(text, 'w.yaml')

void tap.test('the added preset lies below the rules of the workflow', async (t) => {
  const catalog = createCatalog()
  const verdicts = (text: string) => {
    const block = blockOf({ network: policy(text) })
    const network = resolveNetwork({ block, mode: 'auto', repository: REPOSITORY })
    if (network.kind === 'open') throw new Error('open')
    const composed = composeNetwork(network, catalog)
    return ['api.github.com:443', 'a.test:443'].map(
      (target) => decide(composed, targetOf(target), NOW).verdict,
    )
  }
  t.strictSame(verdicts('rules: [a.test]'), ['allow', 'allow'])
  t.strictSame(verdicts('rules: ["!api.github.com"]'), ['deny', 'deny'])
  t.strictSame(verdicts('presets: [none]'), ['deny', 'deny'])
})

void tap.test('the file beside a command line', async (t) => {
  const folder = t.testdir({
    'p.yaml': 'rules: [a.test]',
    'open.yaml': 'mode: open',
    'x.yaml': 'rule: 1',
  })
  const catalog = createCatalog()
  t.equal(loadRunPolicy(`${folder}/p.yaml`, catalog).rules.length, 1)
  t.throws(() => loadRunPolicy(`${folder}/open.yaml`, catalog), { code: 'OPTION_INVALID' })
  t.throws(() => loadRunPolicy(`${folder}/x.yaml`, catalog), { code: 'POLICY_SHAPE' })
  t.throws(() => loadRunPolicy(`${folder}/none.yaml`, catalog), { code: 'FILE_UNREADABLE' })
})
