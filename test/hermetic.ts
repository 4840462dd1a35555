import tap from 'tap'
import ts from 'typescript'
import { sourceFiles } from './support/page.ts'

// Home, environment, clock, resolver, user, folders and programs come into src/door and src/sandbox as arguments. Here the
// sources are read; hermetic-run.ts makes runs with every seam recorded.

/** Programs of their own: they run in a namespace or a container, and have nobody to be given anything by. */
const OWN_PROGRAMS = new Set([
  'door/netns-helper.ts',
  'door/relay-program.ts',
  'door/wrap-helper.ts',
])

/** What of `process` may be used, and where: nothing that tells about its surroundings. */
const OF_PROCESS: Readonly<Record<string, readonly string[]>> = {
  // The program that runs this one runs the helper too.
  execPath: ['door/netns-door.ts', 'door/process-seal.ts'],
  // Of a child that the spawner started.
  kill: ['door/spawn.ts'],
}

/** What of Node's modules tells about the surroundings, or starts a program; `*` is all but what is listed. */
const OF_MODULES: Readonly<Record<string, (name: string, file: string) => boolean>> = {
  'node:os': (name) => name === 'constants',
  'node:child_process': (name, file) => name === 'spawn' && file === 'door/spawn.ts',
  'node:process': () => false,
  'node:perf_hooks': () => false,
  'node:cluster': () => false,
  'node:worker_threads': () => false,
}

/** What a path may be resolved against. */
const FIXED = /^(?:(?:host\.)?cwd|import\.meta\.dirname)$/

interface Finding {
  readonly what: string
  readonly line: number
}

/** What a source file takes from its surroundings. */
function findingsOf(file: string, text: string): Finding[] {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true)
  const findings: Finding[] = []
  const report = (node: ts.Node, what: string) => {
    const { line } = source.getLineAndCharacterOfPosition(node.getStart())
    findings.push({ what, line: line + 1 })
  }
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node)) reportImport(node, file, report)
    if (isMember(node, 'globalThis')) report(node, node.getText())
    if (isMember(node, 'process') && !OWN_PROGRAMS.has(file)) {
      const name = memberOf(node)
      if (!(OF_PROCESS[name] ?? []).includes(file)) report(node, node.getText())
    }
    if (isMember(node, 'Date') && memberOf(node) === 'now') report(node, 'Date.now')
    if (isMember(node, 'performance')) report(node, node.getText())
    if (ts.isNewExpression(node) && node.expression.getText() === 'Date') {
      if ((node.arguments ?? []).length === 0) report(node, 'new Date()')
    }
    if (ts.isCallExpression(node)) {
      const called = node.expression.getText()
      if (called === 'Date') report(node, 'Date()')
      if (called === 'import' && !/^'\.\.?\//.test(node.arguments[0]?.getText() ?? '')) {
        report(node, node.getText())
      }
      // A path that is not absolute starts at the folder of the process.
      if (called === 'path.resolve' && !FIXED.test(node.arguments[0]?.getText() ?? '')) {
        report(node, node.getText())
      }
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return findings
}

function isMember(
  node: ts.Node,
  of: string,
): node is ts.PropertyAccessExpression | ts.ElementAccessExpression {
  return (
    (ts.isPropertyAccessExpression(node) || ts.isElementAccessExpression(node)) &&
    ts.isIdentifier(node.expression) &&
    node.expression.text === of
  )
}

function memberOf(node: ts.PropertyAccessExpression | ts.ElementAccessExpression): string {
  return ts.isPropertyAccessExpression(node) ? node.name.text : node.argumentExpression.getText()
}

function reportImport(
  node: ts.ImportDeclaration,
  file: string,
  report: (node: ts.Node, what: string) => void,
): void {
  if (!ts.isStringLiteral(node.moduleSpecifier)) return
  const from = node.moduleSpecifier.text
  const isAllowed = OF_MODULES[from.startsWith('node:') ? from : `node:${from}`]
  const clause = node.importClause
  if (isAllowed === undefined || clause?.phaseModifier === ts.SyntaxKind.TypeKeyword) return
  const names: string[] = clause?.name || clause === undefined ? ['default'] : []
  const bindings = clause?.namedBindings
  if (bindings && ts.isNamespaceImport(bindings)) names.push('*')
  if (bindings && ts.isNamedImports(bindings)) {
    for (const one of bindings.elements) {
      if (!one.isTypeOnly) names.push((one.propertyName ?? one.name).text)
    }
  }
  for (const name of names) if (!isAllowed(name, file)) report(node, `${name} of ${from}`)
}

const FILES = sourceFiles().filter(({ name }) => /^(?:door|sandbox)\//.test(name))

void tap.test('door and sandbox take nothing from the surroundings of the process', async (t) => {
  t.ok(FILES.length > 50, `${FILES.length} files`)
  for (const { name, text } of FILES) t.strictSame(findingsOf(name, text), [], name)
  for (const name of OWN_PROGRAMS)
    t.ok(
      FILES.some((one) => one.name === name),
      name,
    )
})

void tap.test('the reading of the sources finds what it is there for', async (t) => {
  const table: readonly (readonly [text: string, what: string])[] = [
    ['const a = process.env', 'process.env'],
    ["const a = process.env['HOME']", 'process.env'],
    ["const a = process['env']", "process['env']"],
    ['const { env } = globalThis.process', 'globalThis.process'],
    ["import process from 'node:process'", 'default of node:process'],
    ["import { env } from 'process'", 'env of process'],
    ["import { homedir } from 'node:os'", 'homedir of node:os'],
    ["import { constants, userInfo as who } from 'node:os'", 'userInfo of node:os'],
    ["import * as os from 'os'", '* of os'],
    ["import os from 'node:os'", 'default of node:os'],
    ["import { tmpdir } from 'node:os'", 'tmpdir of node:os'],
    ["import { spawn } from 'node:child_process'", 'spawn of node:child_process'],
    [
      "import { type ChildProcess, execFile } from 'node:child_process'",
      'execFile of node:child_process',
    ],
    ["const { env } = await import('node:process')", "import('node:process')"],
    ['const a = process.cwd()', 'process.cwd'],
    ['const a = path.resolve(file)', 'path.resolve(file)'],
    ['const a = Date.now()', 'Date.now'],
    ['const now = Date.now', 'Date.now'],
    ['const a = new Date()', 'new Date()'],
    ['const a = new Date', 'new Date()'],
    ['const a = Date()', 'Date()'],
    ['const a = performance.now()', 'performance.now'],
    ['const a = process.kill', 'process.kill'],
  ]
  for (const [text, what] of table) {
    t.strictSame(findingsOf('sandbox/x.ts', text), [{ what, line: 1 }], text)
  }
  const fine = `
    import type { ChildProcess } from 'node:child_process'
    import { type StdioOptions } from 'node:child_process'
    import { constants } from 'node:os'
    const { x } = await import('../door/spawn.ts')
    const a = new Date(host.now())
    const b = path.resolve(host.cwd, file)
    const c = { process: 1 }.process
  `
  t.strictSame(findingsOf('sandbox/x.ts', fine), [])
  const own = "import { spawn } from 'node:child_process'"
  t.strictSame(findingsOf('door/spawn.ts', own), [])
})
