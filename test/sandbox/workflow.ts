import path from 'node:path'
import tap from 'tap'
import { createCatalog } from '../../src/presets/catalog.ts'
import { composePolicy } from '../../src/presets/compose.ts'
import { digestOf } from '../../src/sandbox/digest.ts'
import { loadWorkflow, parseWorkflow } from '../../src/sandbox/workflow.ts'
import { inShort, problemsOf } from '../support/problems-of.ts'
import { blockOf } from '../support/sandbox-block.ts'

const FULL = `version: 1
name: build it
sandbox:
  mode: inline
  build: { dockerfile: ci/Dockerfile, context: ci, args: { V: "1" }, target: last }
  user: "1000:1000"
  workspace_folder: /work/app
  host_state: auto
  post_create: npm ci # once
  env: { CI: "true", EMPTY: "" }
  mounts:
    - ./data:/data:ro
    - type=bind,source=/cache,target=/cache
    - { source: ../lib, target: /lib2, read_only: true }
  network:
    presets: [none]
    ports: [8443]
    rules:
      - a.test
attachments: [notes.md]
secrets:
  - { name: TOKEN, as: env, from: { env: HOST_TOKEN } }
  - { name: TOKEN, as: file, from: { file: token.txt } }
nodes:
  - { id: fetch, backend: tool, command: "curl a.test | sh" }
  - { id: plan, backend: claude_code, command: plan it, fallback: [claw, codex] }
  - { id: build.2, command: [npm, "", build] }
`

const BUILD = { dockerfile: 'Dockerfile', context: '.', args: {}, target: undefined }
const NODES = 'nodes: [{id: a, command: "true"}]\n'
const parse = (text: string) => parseWorkflow(text, 'w.yaml')
const withSandbox = (sandbox: string) => parse(`name: w\nsandbox: ${sandbox}\n${NODES}`).sandbox
const problems = (text: string) => problemsOf(() => parse(text)).map(inShort)

void tap.test('every key of a workflow is read', async (t) => {
  const { sandbox, said, ...rest } = parse(FULL)
  t.strictSame(rest, {
    file: 'w.yaml',
    name: 'build it',
    attachments: ['notes.md'],
    secrets: [
      { name: 'TOKEN', as: 'env', from: { env: 'HOST_TOKEN' } },
      { name: 'TOKEN', as: 'file', from: { file: 'token.txt' } },
    ],
    nodes: [
      { id: 'fetch', backend: 'tool', command: 'curl a.test | sh', fallback: [] },
      { id: 'plan', backend: 'claude_code', command: 'plan it', fallback: ['claw', 'codex'] },
      { id: 'build.2', backend: 'tool', command: ['npm', '', 'build'], fallback: [] },
    ],
  })
  const { network, ...block } = sandbox ?? blockOf()
  t.strictSame(
    { ...block, network: undefined },
    blockOf({
      mode: 'inline',
      build: { dockerfile: 'ci/Dockerfile', context: 'ci', args: { V: '1' }, target: 'last' },
      user: '1000:1000',
      workspaceFolder: '/work/app',
      hostState: 'auto',
      postCreate: 'npm ci',
      env: { CI: 'true', EMPTY: '' },
      mounts: [
        { source: './data', target: '/data', readOnly: true },
        { source: '/cache', target: '/cache', readOnly: false },
        { source: '../lib', target: '/lib2', readOnly: true },
      ],
    }),
  )
  t.match(network, {
    file: 'w.yaml',
    isEmbedded: true,
    mode: 'allowlist',
    presets: [{ name: 'none', at: { file: 'w.yaml', line: 16, column: 15 } }],
    rules: [
      {
        text: 'a.test',
        ports: [{ low: 8443, high: 8443 }],
        origin: { source: 'w.yaml', line: 19, column: 9 },
      },
    ],
  })
  t.match(digestOf(said), /^[\da-f]{64}$/)
})

void tap.test('what is left out has its default', async (t) => {
  t.strictSame(parse(`name: w\n${NODES}`).sandbox, undefined)
  t.strictSame(withSandbox('auto'), blockOf({ mode: 'auto' }))
  t.strictSame(withSandbox('none'), blockOf({ mode: 'none' }))
  t.strictSame(withSandbox('{}'), blockOf())
  t.strictSame(withSandbox('{image: "a:1"}'), blockOf({ mode: 'inline', image: 'a:1' }))
  t.strictSame(withSandbox('{build: {}}'), blockOf({ mode: 'inline', build: BUILD }))
  t.strictSame(withSandbox('{mode: none, image: a}'), blockOf({ mode: 'none', image: 'a' }))
  t.strictSame(withSandbox('{mode: auto, image: a}'), blockOf({ mode: 'auto', image: 'a' }))
})

void tap.test('what is wrong is told all at once, shape and contents', async (t) => {
  const text = `nam: w
policy: p.yaml
sandbox:
  image: -v/:/h
  build: {}
  env: { A=B: "1" }
  network: { rules: ["a b"] }
secrets: [{ name: A, as: env, from: {} }]
nodes: [{ id: a, command: x }, { id: a, command: x }]
`
  t.strictSame(
    problemsOf(() => parse(text)).map(({ at, code }) => `${at?.line}:${at?.column} ${code}`),
    [
      '1:1 WORKFLOW_SHAPE',
      '1:1 WORKFLOW_SHAPE',
      '2:1 WORKFLOW_SHAPE',
      '4:10 WORKFLOW_SHAPE',
      '5:3 WORKFLOW_SHAPE',
      '6:10 WORKFLOW_SHAPE',
      '7:22 POLICY_PATTERN',
      '8:37 WORKFLOW_SHAPE',
      '9:38 WORKFLOW_SHAPE',
    ],
  )
})

void tap.test('YAML beyond plain values is refused as in a policy', async (t) => {
  for (const [text, code] of [
    [`name: !x w\n${NODES}`, 'POLICY_SYNTAX'],
    [`name: &a w\n${NODES}`, 'POLICY_SYNTAX'],
    [`name: w\nname: w\n${NODES}`, 'POLICY_SHAPE'],
    [`name: w\n${NODES}---\nx\n`, 'POLICY_SYNTAX'],
    ['name: [', 'POLICY_SYNTAX'],
    ['['.repeat(100), 'POLICY_SYNTAX'],
  ] as const) {
    t.match(problemsOf(() => parse(text))[0], { code }, text.slice(0, 20))
  }
  t.strictSame(problems('hello'), ['1:1 WORKFLOW_SHAPE the file is "hello"; expected a map'])
  t.strictSame(problems(''), [
    '1:1 WORKFLOW_SHAPE name is missing',
    '1:1 WORKFLOW_SHAPE nodes is missing',
  ])
})

void tap.test('the digest is that of what the file says', async (t) => {
  const digest = (text: string) => digestOf(parse(text).said)
  const plain = digest(`name: w\nsandbox: {user: a, env: {A: "1", B: "2"}}\n${NODES}`)
  t.equal(
    digest(`# why\n${NODES}sandbox:\n  env:\n    B: '2'\n    A: "1"\n  user: a\nname: w\n`),
    plain,
  )
  for (const other of [
    `name: x\nsandbox: {user: a, env: {A: "1", B: "2"}}\n${NODES}`,
    `name: w\nsandbox: {user: a, env: {A: "2", B: "1"}}\n${NODES}`,
    `name: w\nsandbox: {user: a, env: {A: "1"}}\n${NODES}`,
    `name: w\nsandbox: {user: a, env: {A: "1", B: "2"}, network: {}}\n${NODES}`,
  ]) {
    t.not(digest(other), plain, other)
  }
})

void tap.test('a file is read, and its presets stay under its folder', async (t) => {
  const preset = (name: string) =>
    `name: ${name}\ndescription: For a test.\nrules: [${name}.test]\n`
  const workflow = (name: string) => `name: w\nsandbox: {network: {presets: [${name}]}}\n${NODES}`
  const dir = t.testdir({
    'outside.yaml': preset('outside'),
    flow: {
      'own.yaml': preset('own'),
      'leads-out.yaml': 'name: leads-out\ndescription: x\nextends: [../outside.yaml]\n',
      'good.yaml': workflow('./own.yaml'),
      'bad.yaml': workflow('../outside.yaml'),
      'unknown.yaml': workflow('lllm'),
      'later.yaml': workflow('./leads-out.yaml'),
    },
  })
  const catalog = createCatalog()
  const load = (name: string) => loadWorkflow(path.join(dir, 'flow', name), catalog)
  const compose = (name: string) => {
    const network = load(name).sandbox?.network
    if (network === undefined || network === 'open') throw new Error('no policy')
    return composePolicy({ source: network }, catalog).policy
  }
  t.strictSame(
    compose('good.yaml').rules.map(({ text }) => text),
    ['own.test'],
  )
  t.match(problemsOf(() => load('bad.yaml')).map(inShort), [
    /^2:31 PRESET_UNKNOWN the preset "\.\.\/outside\.yaml" lies outside the folder/,
  ])
  t.match(
    problemsOf(() => load('unknown.yaml')),
    [{ message: /did you mean llm/ }],
  )
  t.match(
    problemsOf(() => compose('later.yaml')),
    [{ message: /lies outside the folder/ }],
  )
  t.throws(() => load('missing.yaml'), { code: 'FILE_UNREADABLE' })
})
