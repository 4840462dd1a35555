import { spawn } from 'node:child_process'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import tap, { type Test } from 'tap'
import ts from 'typescript'
import { RELAY } from '../support/proxy.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
/** The longest that a load may take, in milliseconds. */
const PATIENCE_MS = 45_000

interface Mutant {
  readonly name: string
  readonly file: string
  /** What is replaced, each of which stands there once, and by what. */
  readonly changes: readonly (readonly [from: string, to: string])[]
  /** The load that shows it. */
  readonly load: string
  /** Default: a wrong byte. */
  readonly shows?: RegExp
}

const POOLED = 'src/proxy/pooled-socket.ts'

const MUTANTS: readonly Mutant[] = [
  {
    name: 'little reads are written without a copy',
    load: 'little',
    file: POOLED,
    changes: [['write(Buffer.from(bytes), this.#onWritten)', 'write(bytes, this.#onWritten)']],
  },
  {
    name: 'a private buffer is given back while a write is pending',
    load: 'mixed',
    file: POOLED,
    changes: [
      [
        'if (this.#isHeld) return false\n',
        'if (this.#isHeld) {\n      intake.buffer = borrow() ?? shared\n      giveBack(own, true)\n      return false\n    }\n',
      ],
    ],
  },
  {
    name: 'the buffer of a source that has closed is lent again at once',
    load: 'torn',
    file: POOLED,
    changes: [['this.#letGo(!this.#isPending)', 'this.#letGo(true)']],
  },
  {
    name: 'reading goes on while a private write is pending',
    load: 'mixed',
    file: POOLED,
    changes: [['if (this.#isHeld) return false\n', 'if (this.#isHeld) return true\n']],
  },
  {
    name: 'a private buffer becomes the shared one while a write is pending',
    load: 'turning',
    file: POOLED,
    changes: [
      ['if (this.#isHeld) return false\n', ''],
      [
        'giveBack(own, true)\n    }\n    return true',
        'giveBack(own, true)\n    }\n    return !this.#isHeld',
      ],
    ],
  },
  {
    name: 'bytes that nobody takes are kept without a copy',
    load: 'early',
    file: POOLED,
    changes: [['?.push(Buffer.from(bytes))', '?.push(bytes)']],
  },
  {
    name: 'bytes behind a CONNECT are kept without a copy',
    load: 'early',
    file: 'src/proxy/connection.ts',
    changes: [['socket.unshift(Buffer.from(early))', 'socket.unshift(early)']],
  },
  {
    name: 'nobody reads on after a write that waited',
    load: 'mixed',
    file: POOLED,
    changes: [['this.#isHeld = false\n    this.#from.read(0)', 'this.#isHeld = false']],
    shows: /stuck/,
  },
]

/** What the load needs of this repository. */
const PARTS = ['src', 'src/proxy', 'src/policy', 'src/events', 'test/support']

const { compilerOptions: OPTIONS } = ts.readConfigFile(join(ROOT, 'tsconfig.json'), (file) =>
  readFileSync(file, 'utf8'),
).config as { readonly compilerOptions: object }
const { options: COMPILER_OPTIONS } = ts.convertCompilerOptionsFromJson(OPTIONS, ROOT)

const sourceOf = (file: string) => readFileSync(join(ROOT, file), 'utf8')

/** Writes a source file into a copy of this repository, as JavaScript. */
function build(folder: string, file: string, text = sourceOf(file)): void {
  const target = join(folder, file.replace(/\.ts$/, '.js'))
  mkdirSync(dirname(target), { recursive: true })
  const { outputText } = ts.transpileModule(text, {
    compilerOptions: { ...COMPILER_OPTIONS, module: ts.ModuleKind.ESNext },
  })
  writeFileSync(target, outputText)
}

/** A copy that can run, without the packages. */
function copyRepository(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'egress-mutants-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  cpSync(join(ROOT, 'package.json'), join(folder, 'package.json'))
  for (const part of PARTS) {
    const files = readdirSync(join(ROOT, part)).filter((name) => name.endsWith('.ts'))
    for (const name of files) build(folder, join(part, name))
  }
  return folder
}

/** The text of a file with the changes in it. */
function mutate({ file, changes }: Mutant): string {
  let text = sourceOf(file)
  for (const [from, to] of changes) {
    const parts = text.split(from)
    if (parts.length !== 2) throw new Error(`${parts.length - 1} times in ${file}: ${from}`)
    text = parts.join(to)
  }
  return text
}

interface Trial {
  readonly status: number | null
  readonly said: string
}

/** Puts the relay of a copy under those loads, or under all there are. */
async function runTrial(t: Test, folder: string, ...loads: string[]): Promise<Trial> {
  const child = spawn(process.execPath, [join(folder, 'test/support/relay-trial.js'), ...loads], {
    env: { TEST_RELAY: 'pooled' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  const timer = setTimeout(() => child.kill('SIGKILL'), PATIENCE_MS)
  let said = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => (said += text))
  }
  const status = await new Promise<number | null>((resolve) => child.once('close', resolve))
  clearTimeout(timer)
  return { status, said }
}

// They are mutants of the pooled relay alone.
if (RELAY === 'pooled')
  void tap.test(
    'the load finds every mutant of the relay, and no fault in the relay itself',
    async (t) => {
      const folder = copyRepository(t)
      t.match(await runTrial(t, folder), { status: 0 }, 'the relay as it is')
      for (const mutant of MUTANTS) {
        build(folder, mutant.file, mutate(mutant))
        t.match(
          await runTrial(t, folder, mutant.load),
          { status: 3, said: mutant.shows ?? /a wrong byte/ },
          mutant.name,
        )
        build(folder, mutant.file)
      }
    },
  )

void tap.test('a mutant whose text is not there is an error', async (t) => {
  const changes = [['what nobody wrote', '']] as const
  t.throws(() => mutate({ name: '', load: '', file: POOLED, changes }), /^0 times/)
  t.throws(() => mutate({ name: '', load: '', file: POOLED, changes: [['shared', '']] }), /times/)
})
