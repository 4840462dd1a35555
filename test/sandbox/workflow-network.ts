import tap from 'tap'
import { decide } from '../../src/policy/decide.ts'
import { parsePolicy } from '../../src/policy/parse.ts'
import { createCatalog } from '../../src/presets/catalog.ts'
import { composePolicy } from '../../src/presets/compose.ts'
import { YamlSource } from '../../src/policy/yaml-source.ts'
import { readWorkflowNetwork } from '../../src/sandbox/workflow-network.ts'
import { parseWorkflow } from '../../src/sandbox/workflow.ts'
import { NOW, targetOf } from '../support/policy-of.ts'
import { inShort, problemsOf } from '../support/problems-of.ts'

const NODES = 'nodes: [{id: a, command: "true"}]\n'
const parse = (text: string) => parseWorkflow(text, 'w.yaml')
const withSandbox = (sandbox: string) => parse(`name: w\nsandbox: ${sandbox}\n${NODES}`).sandbox
const problems = (text: string) => problemsOf(() => parse(text)).map(inShort)

void tap.test('a network is open, a policy, or not spoken of', async (t) => {
  t.equal(withSandbox('{mode: auto}')?.network, undefined)
  t.equal(withSandbox('{network: open}')?.network, 'open')
  t.equal(withSandbox('{network: {mode: open}}')?.network, 'open')
  t.equal(withSandbox('{network: {version: 1, mode: open}}')?.network, 'open')
  for (const text of ['{network: {}}', '{network: }', '{network: ~}']) {
    t.match(withSandbox(text)?.network, { mode: 'allowlist', rules: [], presets: [] }, text)
  }
})

void tap.test('rules beside an open network are refused where they stand', async (t) => {
  const text = `name: w
sandbox:
  network:
    mode: open
    rules: ["!a.test"]
    presets: [none]
${NODES}`
  const why = 'beside it would not hold'
  t.strictSame(problems(text), [
    `5:5 POLICY_RULE an open network has no proxy: "rules" ${why}`,
    `6:5 POLICY_RULE an open network has no proxy: "presets" ${why}`,
  ])
})

void tap.test(
  'the embedded policy is read by the code of policy files, in its place',
  async (t) => {
    const text = `name: w
sandbox:
  network:
    mode: strict
    presets: [lllm]
    ports: ["90-80"]
    ruls: []
    rules:
      - "https://a.test/"
      - { hots: a.test, host: b.test }
      - b.test: 443
      - { host: "!c.test", private: true }
    quiet: ["!q.test"]
    tests: { allow: ["a b"] }
${NODES}`
    const catalog = createCatalog()
    const options = { checkPreset: (name: string) => catalog.check(name) }
    const found = problemsOf(() => parseWorkflow(text, 'w.yaml', options))
    t.strictSame(
      found.map(({ at, code }) => `${at?.file} ${at?.line}:${at?.column} ${code}`),
      [
        'w.yaml 4:11 POLICY_SHAPE',
        'w.yaml 5:15 PRESET_UNKNOWN',
        'w.yaml 6:13 POLICY_PATTERN',
        'w.yaml 7:5 POLICY_SHAPE',
        'w.yaml 9:9 POLICY_PATTERN',
        'w.yaml 10:11 POLICY_SHAPE',
        'w.yaml 11:9 POLICY_SHAPE',
        'w.yaml 12:37 POLICY_RULE',
        'w.yaml 13:13 POLICY_PATTERN',
        'w.yaml 14:22 POLICY_SHAPE',
      ],
    )
    t.equal(found[3]?.message, 'unknown key "ruls" in sandbox.network; did you mean rules?')
    t.equal(found[5]?.message, 'unknown key "hots" in sandbox.network.rules[2]; did you mean host?')
    t.equal(found[6]?.correction, '"b.test:443"')
    t.equal(found[1]?.sourceLine, '    presets: [lllm]')
  },
)

void tap.test('an embedded policy decides as the same policy in a file of its own', async (t) => {
  const rules = 'rules: ["**.a.test", "!x.a.test", "b.test:22"]'
  const block = withSandbox(`{network: {${rules}}}`)
  const catalog = createCatalog()
  const digestOf = (source: unknown) =>
    composePolicy({ source: source as ReturnType<typeof parsePolicy> }, catalog).policy
  const embedded = digestOf(block?.network)
  const alone = digestOf(parsePolicy(rules, 'w.yaml'))
  for (const target of ['z.a.test:443', 'x.a.test:443', 'b.test:22', 'b.test:443', 'c.test:443']) {
    const verdict = decide(alone, targetOf(target), NOW).verdict
    t.equal(decide(embedded, targetOf(target), NOW).verdict, verdict, target)
  }
})

void tap.test('a network of another kind is refused', async (t) => {
  for (const network of ['closed', '5', '[]']) {
    t.match(problems(`name: w\nsandbox: {network: ${network}}\n${NODES}`), [
      /^2:20 WORKFLOW_SHAPE sandbox\.network is .*; expected open, or a map/,
    ])
  }
})

void tap.test('a file of another shape has no network', async (t) => {
  for (const text of ['', 'x', '[]', 'sandbox: auto', 'sandbox: [network]', 'sandbox: {}']) {
    const source = new YamlSource(text, 'w.yaml')
    t.equal(readWorkflowNetwork(source, source.toValue(), {}), undefined, text)
    t.strictSame(source.problems, [], text)
  }
})
