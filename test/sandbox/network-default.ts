import tap from 'tap'
import { parsePolicy, type PolicySource } from '../../src/policy/parse.ts'
import {
  declaresPolicy,
  resolveNetwork,
  type RunNetwork,
} from '../../src/sandbox/network-default.ts'
import type { SandboxMode } from '../../src/sandbox/spec.ts'
import { blockOf } from '../support/sandbox-block.ts'

const REPOSITORY = { file: '.devcontainer/devcontainer.json' }
const policy = (text: string) => parsePolicy(text, 'w.yaml')

const NETWORKS: Readonly<Record<string, 'open' | PolicySource | undefined>> = {
  'no block': undefined,
  open: 'open',
  empty: policy(''),
  'rules alone': policy('rules: [a.test]'),
  'no preset': policy('presets: []'),
  'a preset': policy('presets: [llm]'),
  'the preset none': policy('presets: [none]\nrules: [a.test]'),
  denylist: policy('mode: denylist\nrules: ["!a.test"]'),
}

/** In short: what it is, and `+` where a preset was added. */
const EXPECTED: readonly [network: string, own: string, repository: string][] = [
  ['no block', 'open', 'policy+'],
  ['open', 'open', 'open'],
  ['empty', 'policy', 'policy+'],
  ['rules alone', 'policy', 'policy+'],
  ['no preset', 'policy', 'policy+'],
  ['a preset', 'policy', 'policy'],
  ['the preset none', 'policy', 'policy'],
  ['denylist', 'policy', 'policy'],
]

function inShort(network: RunNetwork): string {
  return network.kind === 'policy' && network.defaulted ? 'policy+' : network.kind
}

void tap.test('who chose the network', async (t) => {
  t.strictSame(
    EXPECTED.map(([name]) => name),
    Object.keys(NETWORKS),
  )
  for (const [name, own, repository] of EXPECTED) {
    const block = name === 'no block' ? blockOf() : blockOf({ network: NETWORKS[name] })
    const cells: [mode: SandboxMode, found: boolean, expected: string][] = [
      ['auto', false, own],
      ['auto', true, repository],
      ['inline', false, own],
      // A floor raised it: that loosens nothing.
      ['inline', true, repository],
      ['none', true, own],
    ]
    for (const [mode, found, expected] of cells) {
      const network = resolveNetwork({ block, mode, ...(found && { repository: REPOSITORY }) })
      t.equal(inShort(network), expected, `${name}, ${mode}, repository ${found}`)
    }
  }
  t.equal(resolveNetwork({ block: undefined, mode: 'auto' }).kind, 'open', 'no sandbox: at all')
})

void tap.test('what was added, and why, is said', async (t) => {
  const source = NETWORKS['rules alone'] as PolicySource
  t.strictSame(
    resolveNetwork({ block: blockOf({ network: source }), mode: 'auto', repository: REPOSITORY }),
    {
      kind: 'policy',
      source,
      presets: ['iterion-default'],
      defaulted: { preset: 'iterion-default', source: REPOSITORY.file },
    },
  )
})

void tap.test('an empty policy is one', async (t) => {
  t.notOk(declaresPolicy(undefined))
  t.notOk(declaresPolicy(blockOf()))
  t.notOk(declaresPolicy(blockOf({ network: 'open' })))
  t.ok(declaresPolicy(blockOf({ network: policy('') })))
})
