import { writeFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { createCatalog } from '../../src/presets/catalog.ts'
import { resolveNetwork } from '../../src/sandbox/network-default.ts'
import { resolveSpec, type SpecDecision, type SpecRequest } from '../../src/sandbox/resolve-spec.ts'
import { EMPTY_BLOCK, type SandboxMode } from '../../src/sandbox/spec.ts'
import { loadWorkflow, parseWorkflow } from '../../src/sandbox/workflow.ts'
import { workflowKeys } from '../../src/sandbox/workflow-schema.ts'
import { bareHost } from '../support/bare-host.ts'
import { codes, headings, readPage, sectionOf, tableOf } from '../support/page.ts'
import { runCli } from '../support/run-cli.ts'

// docs/sandbox.md: its workflows, what is decided before anything starts, and its links. What the container and the record
// are made of is in sandbox-container.ts.

const PAGE = readPage('docs/sandbox.md')
const section = (heading: string) => sectionOf(PAGE, heading)

void tap.test('every workflow in the documents loads', async (t) => {
  const catalog = createCatalog()
  const blocks = [...PAGE.matchAll(/^```yaml\n([\s\S]*?)^```$/gm)].map(([, text = '']) => text)
  t.ok(blocks.length >= 3)
  const readme = [...readPage('README.md').matchAll(/^```yaml\n(# workflow\.yaml\n[\s\S]*?)^```$/gm)]
  t.equal(readme.length, 1)
  for (const text of [...blocks, ...readme.map(([, one = '']) => one)]) {
    const file = path.join(t.testdir({ 'workflow.yaml': text }), 'workflow.yaml')
    t.ok(loadWorkflow(file, catalog).nodes.length > 0, text)
  }
})

void tap.test('the table of keys has every key of a workflow', async (t) => {
  const PLACES: readonly (readonly [place: readonly PropertyKey[], prefix: string])[] = [
    [[], ''],
    [['sandbox'], 'sandbox.'],
    [['sandbox', 'build'], 'sandbox.build.'],
    [['sandbox', 'mounts', 0], 'sandbox.mounts[].'],
    [['secrets', 0], 'secrets[].'],
    [['secrets', 0, 'from'], 'secrets[].from.'],
    [['nodes', 0], 'nodes[].'],
  ]
  const keys = PLACES.flatMap(([place, prefix]) => workflowKeys(place).map((key) => prefix + key))
  const rows = tableOf(section('workflow.yaml'), '| key | meaning | default |')
  t.strictSame(rows.map(([key = '']) => codes(key)[0]).toSorted(), keys.toSorted())
})

void tap.test('defaults of the table of keys are those of the code', async (t) => {
  const text = 'name: x\nsandbox: { build: {}, mounts: [{ source: ./a, target: /a }] }\nnodes: [{ id: a, command: "true" }]\n'
  const { sandbox, nodes } = parseWorkflow(text, 'workflow.yaml')
  const rows = tableOf(section('workflow.yaml'), '| key | meaning | default |')
  const defaultOf = (key: string) => codes(rows.find(([cell]) => cell === `\`${key}\``)?.[2] ?? '')[0]
  t.equal(defaultOf('sandbox.mode'), sandbox?.mode)
  t.equal(defaultOf('sandbox.build.dockerfile'), sandbox?.build?.dockerfile)
  t.equal(sandbox?.build?.context, '.')
  t.equal(defaultOf('sandbox.mounts[].read_only'), String(sandbox?.mounts[0]?.readOnly))
  t.equal(defaultOf('nodes[].backend'), nodes[0]?.backend)
})

const REQUEST: SpecRequest = {
  workflow: undefined,
  workflowFile: 'workflow.yaml',
  builtIn: undefined,
  runtime: 'docker',
  whyNoSeal: undefined,
  hasPolicy: false,
  defaultImage: { version: '1.2.3' },
  hostState: {},
  hasFileSecrets: false,
}


void tap.test('the tiers come in the order of the table', async (t) => {
  const rows = tableOf(section('Whether there is a sandbox'), '| order | who | what it says |')
  const says: Readonly<Record<string, (mode: SandboxMode) => Partial<SpecRequest>>> = {
    '--sandbox': (cli) => ({ cli }),
    ITERION_SANDBOX_OVERRIDE: (override) => ({ override }),
    'sandbox:': (mode) => ({ workflow: { ...EMPTY_BLOCK, mode } }),
    ITERION_SANDBOX_DEFAULT: (value) => ({ default: value }),
    auto: () => ({ builtIn: 'auto' }),
  }
  const names = rows.map(([, who = '', what = '']) => codes(who)[0] ?? codes(what)[0] ?? '')
  t.strictSame(names.toSorted(), Object.keys(says).toSorted())
  for (const [i, name] of names.slice(0, -1).entries()) {
    const weaker = names.slice(i + 1).map((one) => says[one]?.('auto'))
    const decision = resolveSpec(Object.assign({}, REQUEST, ...weaker, says[name]?.('none')))
    t.equal(decision.kind, 'bare', `${name} wins over ${names.slice(i + 1).join()}`)
    t.equal(resolveSpec(Object.assign({}, REQUEST, ...weaker)).kind, 'sandboxed', `below ${name}`)
  }
  t.match(resolveSpec({ ...REQUEST, hasPolicy: true }), { kind: 'sandboxed', mode: 'auto' })
  t.match(resolveSpec(REQUEST), { kind: 'bare', reason: 'not-asked-for' })
})

/** A decision as the table writes it. */
function told(decision: SpecDecision): string {
  switch (decision.kind) {
    case 'sandboxed':
      return `\`${decision.mode}\``
    case 'bare':
      return decision.code === undefined ? 'bare' : `bare, \`${decision.code}\``
    case 'sealed':
      return 'sealed'
    case 'refused':
      return `\`${decision.failureCode}\``
  }
}

void tap.test('the table of what comes of it is what the resolver says, cell by cell', async (t) => {
  const HEAD =
    '| asked for | block names a container | floor | with a runtime | without one, network open | without one, a policy |'
  const seen: string[] = []
  for (const [asked = '', named = '', floors = '', ...cells] of tableOf(
    section('Whether there is a sandbox'),
    HEAD,
  )) {
    const [cli] = codes(asked) as SandboxMode[]
    for (const image of named === 'either' ? [undefined, 'a'] : [named === 'yes' ? 'a' : undefined]) {
      for (const floor of codes(floors)) {
        const cell = `${cli} ${image} ${floor}`
        seen.push(cell)
        const request = { ...REQUEST, cli, floor, workflow: { ...EMPTY_BLOCK, image } }
        for (const runtime of ['docker', 'podman'] as const) {
          for (const hasPolicy of [true, false]) {
            t.equal(told(resolveSpec({ ...request, runtime, hasPolicy })), cells[0], cell)
          }
        }
        const without = { ...request, runtime: undefined }
        t.equal(told(resolveSpec({ ...without, hasPolicy: false })), cells[1], cell)
        t.equal(told(resolveSpec({ ...without, hasPolicy: true })), cells[2], cell)
        const unsealed = { ...without, hasPolicy: true, whyNoSeal: 'it is off' }
        const refused = cells[2] === 'sealed' ? '`SANDBOX_DRIVER_UNAVAILABLE`' : cells[2]
        t.equal(told(resolveSpec(unsealed)), refused, cell)
      }
    }
  }
  t.equal(seen.length, 18)
  t.equal(new Set(seen).size, 18, 'every combination stands once')
})

void tap.test('the table of networks is what is decided', async (t) => {
  const HEAD = '| `sandbox:` says | network | where the repository defines the sandbox |'
  const rows = tableOf(section('Network'), HEAD)
  t.ok(rows.length >= 6)
  for (const [said = '', own = '', byRepository = ''] of rows) {
    const text = `name: x\nsandbox: ${codes(said)[0]}\nnodes: [{ id: a, command: "true" }]\n`
    const block = parseWorkflow(text, 'workflow.yaml').sandbox
    t.equal(resolveNetwork({ block, mode: 'auto' }).kind, own === 'open' ? 'open' : 'policy', said)
    const network = resolveNetwork({ block, mode: 'auto', repository: { file: 'f' } })
    t.equal(network.kind, byRepository === 'open' ? 'open' : 'policy', said)
    const presets = network.kind === 'policy' ? network.presets : []
    t.strictSame(presets, codes(byRepository), `${said}: what comes before its rules`)
  }
})

/** The words of a line as a shell reads them, as far as the documents go. */
function wordsOf(line: string): string[] {
  return [...line.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(
    ([, double, single, plain]) => double ?? single ?? plain ?? '',
  )
}

void tap.test('every command line of the documents is understood', async (t) => {
  const host = bareHost(t, {
    spawn: () => {
      throw new Error('no line of a document starts a program without a sandbox')
    },
  })
  writeFileSync(path.join(host.cwd, 'policy.yaml'), 'version: 1\nrules: [a.example]\n')
  const workflow = 'name: x\nsandbox: { image: a }\nnodes: [{ id: a, command: "true" }]\n'
  writeFileSync(path.join(host.cwd, 'workflow.yaml'), workflow)
  const lines = [PAGE, readPage('README.md')].flatMap((page) =>
    [...page.matchAll(/^(?:\$ |.*`)iterion-egress ((?:run|runs|resume|reap)\b[^`\n]*)/gm)].map(
      ([, line = '']) => line,
    ),
  )
  t.ok(lines.length >= 6, lines.join('\n'))
  for (const line of lines) {
    const { code, stderr } = await runCli(wordsOf(line), '', { host })
    if (!line.startsWith('run ')) t.equal(code, 0, line)
    else t.match(stderr, /\[SANDBOX_DRIVER_UNAVAILABLE\]/, line)
  }
})

void tap.test('links lead to headings, here and in other pages', async (t) => {
  const links = [...PAGE.matchAll(/\]\(([\w./-]*)(?:#([^)]*))?\)/g)]
  t.ok(links.length > 30)
  for (const [link, file = '', anchor] of links) {
    const page = file === '' ? PAGE : readPage(path.posix.join('docs', file))
    if (anchor !== undefined) t.ok(headings(page).includes(anchor), link)
  }
  const contents = [...PAGE.matchAll(/^- \[(.*)\]\(#/gm)].map(([, title]) => title)
  t.strictSame(contents, [...PAGE.matchAll(/^## (.*)$/gm)].map(([, title]) => title))
})

void tap.test('other pages link to headings that are there', async (t) => {
  const all = headings(PAGE)
  const pages = ['README.md', 'SECURITY.md', ...['cli', 'errors', 'events', 'architecture'].map((name) => `docs/${name}.md`)]
  for (const page of pages) {
    for (const [, anchor = ''] of readPage(page).matchAll(/sandbox\.md#([^)]*)\)/g)) {
      t.ok(all.includes(anchor), `${page}: ${anchor}`)
    }
  }
})
