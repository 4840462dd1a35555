import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import ts from 'typescript'
import { FLOORS } from './support/floors.ts'

const ROOT = path.resolve(import.meta.dirname, '..')

/** What opens a connection, and the one file that may import it: every byte that leaves comes through `dial.ts`. */
const CONNECTING: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  'node:net': {
    // Inside a sandbox there is no way out: the relay connects to the proxy's socket, the probe to the door and to nowhere. A
    // health check asks the proxy itself.
    connect: ['cli/health.ts', 'door/probe-inside.ts', 'door/relay-program.ts'],
    createConnection: [],
    Socket: ['proxy/pooled-socket.ts', 'proxy/sockets.ts'],
    default: [],
    '*': [],
  },
  // The request of Node's client goes through `upstream-pool.ts`, whose agent asks `dial.ts`.
  'node:http': {
    request: ['proxy/upstream-request.ts'],
    Agent: ['proxy/upstream-pool.ts'],
    ClientRequest: [],
    get: [],
    globalAgent: [],
    default: [],
    '*': [],
  },
}

/** What `policy` decides depends on its arguments alone. */
const IMPURE =
  /\bDate\.now\b|\bnew Date\(\)|\bMath\.random\b|\b(?:performance|process)\.|\bset(?:Timeout|Interval)\b/

/** Tests in the folders of unit tests that are named for a behaviour, and not for a source file. */
const NAMED_FOR_BEHAVIOUR = new Set([
  'door/name-stub-fuzz.ts',
  'policy/case-book.ts',
  'policy/many-mistakes.ts',
  'policy/oracle-python.ts',
  'policy/oracle-wpt.ts',
  'presets/content.ts',
  'proxy/relay-integrity.ts',
  'proxy/relay-mutants.ts',
  'proxy/relay-pressure.ts',
])

interface Import {
  /** The module, as written. */
  readonly from: string
  /** What is imported as a value; `*` is all of it. */
  readonly values: readonly string[]
}

const FILES = readdirSync(path.join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map((file) => file.replaceAll(path.sep, '/'))
  .toSorted()

function textOf(file: string): string {
  return readFileSync(path.join(ROOT, 'src', file), 'utf8')
}

/** The imports and re-exports of a file, those that wait until they are needed among them. */
function importsOf(file: string): Import[] {
  const source = ts.createSourceFile(file, textOf(file), ts.ScriptTarget.Latest)
  const lines = source.statements.flatMap((statement) => {
    if (!ts.isImportDeclaration(statement) && !ts.isExportDeclaration(statement)) return []
    const { moduleSpecifier: from } = statement
    if (from === undefined || !ts.isStringLiteral(from)) return []
    return [{ from: from.text, values: valuesOf(statement) }]
  })
  return [...lines, ...lateImportsOf(source)]
}

function lateImportsOf(node: ts.Node): Import[] {
  const found: Import[] = []
  ts.forEachChild(node, (child) => {
    if (ts.isCallExpression(child) && child.expression.kind === ts.SyntaxKind.ImportKeyword) {
      const [from] = child.arguments
      found.push({ from: from && ts.isStringLiteral(from) ? from.text : '?', values: ['*'] })
    }
    found.push(...lateImportsOf(child))
  })
  return found
}

function valuesOf(statement: ts.ImportDeclaration | ts.ExportDeclaration): string[] {
  const clause = ts.isImportDeclaration(statement) ? statement.importClause : undefined
  const isType = ts.isExportDeclaration(statement)
    ? statement.isTypeOnly
    : clause?.phaseModifier === ts.SyntaxKind.TypeKeyword
  if (isType) return []
  const names = ts.isExportDeclaration(statement) ? statement.exportClause : clause?.namedBindings
  const values = clause?.name ? ['default'] : []
  if (names === undefined) return values
  if (ts.isNamespaceImport(names) || ts.isNamespaceExport(names)) return [...values, '*']
  for (const one of names.elements) {
    if (!one.isTypeOnly) values.push((one.propertyName ?? one.name).text)
  }
  return values
}

/** The folder of a file, or the file itself at the top. */
function floorOf(file: string): string {
  return file.split('/')[0] ?? file
}

void tap.test(
  'a folder imports only from the floors below it, and only its packages',
  async (t) => {
    t.ok(FILES.length > 40, `${FILES.length} files`)
    for (const file of FILES) {
      const own = floorOf(file)
      const floor = FLOORS[own]
      if (floor === undefined) {
        t.fail(`${file} is in no floor`)
        continue
      }
      for (const { from } of importsOf(file)) {
        if (!from.startsWith('.')) {
          const allowed = floor.packages[from] ?? []
          const name = file.slice(own.length + 1)
          t.ok(allowed.includes('*') || allowed.includes(name), `${file} imports ${from}`)
          continue
        }
        const target = path.posix.join(path.posix.dirname(file), from)
        t.ok(FILES.includes(target), `${file} imports ${from}, a file of src`)
        const reached = floorOf(target)
        t.ok(reached === own || floor.floors.includes(reached), `${file} imports ${from}`)
      }
    }
  },
)

void tap.test('the table of floors has nothing that is not there', async (t) => {
  const all = FILES.map((file) => ({ file, froms: importsOf(file).map(({ from }) => from) }))
  for (const [own, { packages }] of Object.entries(FLOORS)) {
    t.ok(existsSync(path.join(ROOT, 'src', own)), own)
    for (const [name, files] of Object.entries(packages)) {
      for (const one of files) {
        const isUsed = all.some(
          ({ file, froms }) =>
            (one === '*' ? floorOf(file) === own : file === `${own}/${one}`) &&
            froms.includes(name),
        )
        t.ok(isUsed, `${own}/${one} imports ${name}`)
      }
    }
  }
})

void tap.test('only dial.ts opens a connection', async (t) => {
  const found = new Set<string>()
  for (const file of FILES) {
    for (const { from, values } of importsOf(file)) {
      for (const [name, allowed] of Object.entries(CONNECTING[from] ?? {})) {
        if (!values.includes(name)) continue
        found.add(`${from} ${name}`)
        t.ok(allowed.includes(file), `${file} imports ${name} of ${from}`)
      }
    }
    t.notMatch(textOf(file), /\b(?:fetch|WebSocket|EventSource)\(/, `${file} fetches nothing`)
  }
  const relay = textOf('door/relay-program.ts')
  t.notMatch(relay, /\bconnect\((?!\{ path: SOCKET\b)/, 'the relay connects to its one socket')
  // The sockets of the proxy are connected in one place, which is handed to `dial.ts` and to nobody else.
  const connects = FILES.filter((file) => /\.connect\(/.test(textOf(file)))
  t.strictSame(connects, ['proxy/sockets.ts'])
  const makers = FILES.filter((file) => /\bconnectorOf\b/.test(textOf(file)))
  t.strictSame(makers, ['proxy/egress-proxy.ts', 'proxy/sockets.ts'])
  t.match(textOf('proxy/egress-proxy.ts'), /createDialer\(\{[^}]*connect: connectorOf\(relay\)/)
  const modules = ['node:net connect', 'node:net Socket', 'node:http request', 'node:http Agent']
  t.strictSame(found, new Set(modules))
})

void tap.test('nothing is loaded but what an import names in so many words', async (t) => {
  for (const file of FILES) {
    const text = textOf(file)
    t.notMatch(text, /\bimport\s*\((?!'\.[^']*'\))/, `${file}: a late import is of a file of ours`)
    t.notMatch(text, /\brequire\b\s*\(|createRequire|getBuiltinModule/, file)
    t.notMatch(text, /\beval\b\s*\(|new Function\b/, file)
  }
})

void tap.test('policy has no clock, no chance and no environment', async (t) => {
  for (const file of FILES) {
    if (floorOf(file) === 'policy') t.notMatch(textOf(file), IMPURE, file)
  }
})

void tap.test('a unit test is named for a source file', async (t) => {
  const stale = new Set(NAMED_FOR_BEHAVIOUR)
  for (const folder of Object.keys(FLOORS)) {
    const tests = path.join(ROOT, 'test', folder)
    if (folder.endsWith('.ts') || !existsSync(tests)) continue
    const files = readdirSync(tests, { recursive: true, encoding: 'utf8' })
    for (const name of files.filter((one) => one.endsWith('.ts'))) {
      const file = `${folder}/${name.replaceAll(path.sep, '/')}`
      const isKnown = stale.delete(file)
      t.ok(isKnown || FILES.includes(file), `test/${file} has its source file`)
    }
  }
  t.strictSame(stale, new Set())
})
