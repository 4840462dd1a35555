import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { classifyIp } from '../../src/policy/address-kind.ts'
import { parseHost } from '../../src/policy/host.ts'
import { localNameKind } from '../../src/policy/local-names.ts'
import { DEFAULT_PORTS } from '../../src/policy/parse.ts'
import { matchesPattern, parsePattern } from '../../src/policy/pattern.ts'
import { runPolicyTests } from '../../src/policy/policy-test.ts'
import { parseRule } from '../../src/policy/rule.ts'
import { policySchema } from '../../src/policy/schema.ts'
import { loadPolicy } from '../../src/presets/load-policy.ts'
import { NOW } from '../support/policy-of.ts'

const ROOT = new URL('../../', import.meta.url)
const read = (file: string) => readFileSync(new URL(file, ROOT), 'utf8')
const PAGE = read('docs/policy.md')

/** The text under a heading, up to the next one. */
function section(heading: string): string {
  const start = PAGE.indexOf(`\n## ${heading}\n`)
  if (start === -1) throw new Error(`no section ${heading}`)
  return PAGE.slice(start, PAGE.indexOf('\n## ', start + 1) >>> 0)
}

/** The cells of the table with this head. */
function table(text: string, head: string): string[][] {
  const start = text.indexOf(`${head}\n`)
  if (start === -1) throw new Error(`no table ${head}`)
  const rows = text.slice(start).split('\n\n')[0]?.split('\n').slice(2) ?? []
  return rows.map((row) => row.split('|').slice(1, -1).map((cell) => cell.trim()))
}

const codes = (cell: string) => [...cell.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code)

interface Block {
  readonly file: string
  readonly text: string
}

/** Fenced YAML that is a policy: it says so behind the fence, or its first line is a comment with the name of the file. */
function policiesOf(file: string): Block[] {
  if (!existsSync(new URL(file, ROOT))) return []
  return [...read(file).matchAll(/^```ya?ml( policy)?\n([\s\S]*?)^```$/gm)].flatMap(([, mark, text = '']) =>
    mark !== undefined || /^# \S*policy\S*\.ya?ml/.test(text) ? [{ file, text }] : [],
  )
}

const BLOCKS = ['docs/policy.md', 'README.md'].flatMap(policiesOf)

void tap.test('every policy in the documents loads, and passes its own tests', async (t) => {
  t.ok(BLOCKS.length >= 8, `${BLOCKS.length} policies`)
  for (const [i, { file, text }] of BLOCKS.entries()) {
    const policyFile = path.join(t.testdir({ 'policy.yaml': text }), 'policy.yaml')
    const { policy, tests } = loadPolicy(policyFile)
    t.strictSame(runPolicyTests(policy, tests, NOW).map(({ test }) => test.text), [], `policy ${i + 1}, of ${file}`)
  }
})

void tap.test('no YAML in the page is left unmarked', async (t) => {
  t.equal(policiesOf('docs/policy.md').length, PAGE.match(/^```ya?ml/gm)?.length)
})

void tap.test('each pattern of the table matches what it says', async (t) => {
  const rows = table(section('Patterns'), '| pattern | matches | does not match |')
  t.ok(rows.length > 10)
  for (const [pattern = '', yes = '', no = ''] of rows) {
    const [text = ''] = codes(pattern)
    const parsed = parsePattern(text)
    if (parsed.kind === 'bad') {
      t.fail(`${text}: ${parsed.why}`)
      continue
    }
    for (const [cell, matches] of [[yes, true], [no, false]] as const) {
      t.ok(codes(cell).length > 0, `${text} has examples`)
      for (const name of codes(cell)) {
        const host = parseHost(name)
        if (host.kind === 'bad') t.fail(`${name}: ${host.why}`)
        else t.equal(matchesPattern(parsed, host), matches, `${text} and ${name}`)
      }
    }
  }
})

void tap.test('each pattern that is said to be refused is, with the correction that is said', async (t) => {
  const rows = table(section('Patterns'), '| refused | why | write |')
  t.ok(rows.length > 20)
  for (const [pattern = '', , write = ''] of rows) {
    const [host = ''] = codes(pattern)
    const faults = parseRule({ host }, DEFAULT_PORTS, { source: 'docs', line: 1, column: 1 })
    if (!('length' in faults)) {
      t.fail(`${host} is a rule`)
      continue
    }
    const correction = faults[0]?.correction
    const [wanted] = codes(write)
    if (wanted === undefined) t.notOk(correction?.startsWith('"'), `${host} has no correction`)
    else t.equal(correction, JSON.stringify(wanted), host)
  }
})

/** The texts in quotes of a source file, within a part of it. */
function quoted(file: string, from: string, to: string): string[] {
  const text = read(file)
  const start = text.indexOf(from)
  const part = text.slice(start, text.indexOf(to, start))
  return [...part.matchAll(/'([^']+)'/g)].map(([, value = '']) => value)
}

const KIND_FILE = 'src/policy/address-kind.ts'

void tap.test('the table of the floor is that of the code', async (t) => {
  const floor = section('The address floor')
  const documented = table(floor, '| range | kind |').map(([range = '', kind = '']) => `${codes(range)[0]} ${kind.split(':')[0]}`)
  const rows = [...read(KIND_FILE).matchAll(/\['([\d.a-f:]+\/\d+)', '([a-z-]+)'\]/g)]
  const closed = rows.flatMap(([, range, kind]) => (kind === 'public' ? [] : [`${range} ${kind}`]))
  t.strictSame(documented.toSorted(), closed.toSorted())
  const open = rows.flatMap(([, range = '', kind]) => (kind === 'public' && range !== '2000::/3' ? [range] : []))
  t.strictSame(codes(paragraph(floor, 'Within these ranges')).toSorted(), open.toSorted())
  const metadata = codes(paragraph(floor, 'Metadata services are'))
  t.strictSame(metadata.toSorted(), quoted(KIND_FILE, 'const METADATA = [', ']').toSorted())
  for (const text of metadata) {
    const host = parseHost(text.includes(':') ? `[${text}]` : text)
    t.equal(host.kind === 'ip' && classifyIp(host.ip).kind, 'metadata', text)
  }
})

function paragraph(text: string, start: string): string {
  const at = text.indexOf(start)
  if (at === -1) throw new Error(`no paragraph ${start}`)
  return text.slice(at).split('\n\n')[0] ?? ''
}

void tap.test('the local names are those of the code', async (t) => {
  const rows = table(section('Local names'), '| name | kind |')
  const names = rows.map(([name = '']) => codes(name)[0] ?? '')
  for (const [i, name] of names.entries()) {
    const plain = name.replace('*', 'a.b')
    t.equal(localNameKind(plain), rows[i]?.[1], name)
  }
  const inCode = [
    ...quoted('src/policy/local-names.ts', 'METADATA_NAMES = new Set', ')'),
    ...quoted('src/policy/local-names.ts', 'LOCAL_NAMES = new Set([\n  \'localhost\'', ')'),
  ]
  t.strictSame(names.filter((name) => !name.includes('*')).toSorted(), inCode.toSorted())
})

void tap.test('the reasons are those of the code', async (t) => {
  const documented = table(section('Reasons'), '| reason | meaning |').map(([reason = '']) => codes(reason)[0])
  t.strictSame(documented, quoted('src/policy/decide.ts', 'export type DenyReason', 'export type Reason'))
})

void tap.test('every key of a policy, a rule and the limits is in the page', async (t) => {
  const keys = table(section('A first policy'), '| key | meaning | default |').map(([key = '']) => codes(key)[0])
  t.strictSame(keys.toSorted(), Object.keys(policySchema.shape).toSorted())
  const ruleKeys = table(section('More about a rule'), '| key | meaning |').map(([key = '']) => codes(key)[0])
  t.strictSame(ruleKeys.toSorted(), ['host', 'note', 'ports', 'private', 'until', 'wide'])
  const limits = codes(paragraph(section('Quiet, TLS and limits'), '`limits` sets'))
  for (const key of Object.keys(policySchema.shape.limits.unwrap().shape)) t.ok(limits.includes(key), key)
})

void tap.test('links within the page lead to headings', async (t) => {
  const headings = [...PAGE.matchAll(/^#+ (.*)$/gm)].map(([, text = '']) => text.toLowerCase().replace(/[^a-z\d -]/g, '').replaceAll(' ', '-'))
  for (const [, anchor = ''] of PAGE.matchAll(/\]\(#([^)]*)\)/g)) t.ok(headings.includes(anchor), anchor)
})
