import tap from 'tap'
import { EgressError, ERROR_MEANINGS, type ErrorCode } from '../../src/errors.ts'
import { formatGoDuration } from '../../src/sandbox/duration.ts'
import { Cancelled, failureRecord } from '../../src/sandbox/failure.ts'
import { KNOBS, readKnobs } from '../../src/sandbox/knobs.ts'
import { readLimits } from '../../src/sandbox/limits.ts'
import { RUN_STATUSES, runRecordSchema } from '../../src/sandbox/run-record.ts'
import { codes, readPage, sectionOf, sourceFiles, tableOf } from '../support/page.ts'

// docs/sandbox.md: bounds, records, failures and variables.

const PAGE = readPage('docs/sandbox.md')
const section = (heading: string) => sectionOf(PAGE, heading)

void tap.test('knobs and limits are those of the code', async (t) => {
  const knobs = tableOf(section('Phases and knobs'), '| phase | knob | default | what |')
  t.strictSame(
    knobs.map(([phase = '', knob = '', value = '']) => [codes(phase)[0], codes(knob)[0], value]),
    KNOBS.map(({ name, knob, defaultMs }) => [name, knob, formatGoDuration(defaultMs)]),
  )
  const limits = tableOf(section('Phases and knobs'), '| limit | variable | default | unit |')
  const [memory = '', pids = ''] = limits.map(([, variable = '']) => codes(variable)[0])
  t.equal(limits.length, 2)
  t.equal(readLimits({}, 4000).memoryBytes, 3000, 'three quarters')
  t.equal(String(readLimits({}, 4000).pids), limits[1]?.[2])
  t.strictSame(readLimits({ [memory]: '6m', [pids]: '0' }, 1), {
    memoryBytes: 6 * 1024 ** 2,
    pids: 0,
    warnings: [],
  })
  t.equal(readLimits({ [memory]: '6291455' }, 1).warnings.length, 1, 'less than 6m')
  const line = /```text\n(ITERION_.*)\n```/.exec(section('Phases and knobs'))?.[1]
  t.equal(line, readKnobs({ ITERION_SANDBOX_PULL_TIMEOUT: '5' }).warnings[0])
  t.equal(readKnobs({ ITERION_SANDBOX_PULL_TIMEOUT: '24h' }).warnings.length, 0)
  t.equal(readKnobs({ ITERION_SANDBOX_PULL_TIMEOUT: '24h1s' }).warnings.length, 1)
})

void tap.test('bounds that nobody sets are those of the code', async (t) => {
  const BOUNDS: readonly (readonly [start: string, file: string, constant: RegExp])[] = [
    ['a node, after SIGTERM', 'run-control.ts', /TERM_GRACE_MS = 10_000/],
    ['the first process', 'drivers/docker.ts', /STOP_GRACE_MS = 3_000/],
    ['an expired phase', 'phase.ts', /SETTLE_MS = 5_000/],
    ['each file system in memory', 'layout.ts', /HOME_BYTES = 2 \* 1024 \*\* 3/],
    ['the file system of the secrets', 'layout.ts', /SECRETS_BYTES = 16 \* 1024 \*\* 2/],
  ]
  const rows = tableOf(section('Phases and knobs'), '| what | bound |')
  t.equal(rows.length, BOUNDS.length)
  for (const [i, [start, file, constant]] of BOUNDS.entries()) {
    t.ok(rows[i]?.[0]?.startsWith(start), start)
    t.match(readPage(`src/sandbox/${file}`), constant, `${start}: ${rows[i]?.[1]}`)
  }
  t.strictSame(
    rows.map(([, bound]) => bound),
    ['10 s', '3 s', '5 s', '2 GiB', '16 MiB'],
  )
  t.match(section('The run store'), 'up to 2,000 characters')
  t.match(readPage('src/sandbox/run-store.ts'), /MAX_ERROR_LENGTH = 2_000/)
  t.match(section('Secrets and environment'), 'longer than 16 KiB')
  t.match(readPage('src/sandbox/env-file.ts'), /MAX_LINE = 16 \* 1024/)
  t.match(section('Workspace and git'), 'of more than 64')
  t.match(readPage('src/sandbox/git-mounts.ts'), /MAX_NESTED = 64/)
})

void tap.test('what is undone comes in the order that is told', async (t) => {
  const text = readPage('src/sandbox/sandbox.ts') + readPage('src/sandbox/sandbox-network.ts')
  const made = [...text.matchAll(/\bteardown\.add\('(\w+)'/g)]
  const names = [...new Set(made.map(([, name]) => name))]
  const paragraph = /^Undone are[\s\S]*?: (.*)\./m.exec(section('From start to end'))?.[1] ?? ''
  t.strictSame(codes(paragraph), names.toReversed())
})

void tap.test('the fields of run.json are those of its schema, inner ones too', async (t) => {
  const rows = tableOf(section('The run store'), '| field | meaning |')
  const { shape } = runRecordSchema
  t.strictSame(
    rows.map(([field = '']) => codes(field)[0]),
    Object.keys(shape),
  )
  for (const name of ['owner', 'source', 'flags'] as const) {
    const meaning = rows.find(([field]) => field === `\`${name}\``)?.[1] ?? ''
    t.strictSame(codes(meaning).filter((one) => one !== 'resume'), Object.keys(shape[name].shape))
  }
  const checkpoint = rows.find(([field]) => field === '`checkpoint`')?.[1] ?? ''
  t.strictSame(codes(checkpoint), ['done', 'node', 'exit_code', 'next'])
  t.strictSame(Object.keys(shape.checkpoint.shape), ['done', 'next'])
})

void tap.test('statuses, retry classes and codes are what a record gets', async (t) => {
  const HEAD = '| status | retry class | failure codes |'
  const rows = tableOf(section('Statuses and failure codes'), HEAD)
  t.strictSame(
    new Set(rows.map(([status = '']) => codes(status)[0])),
    new Set<string | undefined>(RUN_STATUSES),
  )
  const named = new Set<string>()
  for (const [status = '', retry = '', list = ''] of rows) {
    for (const code of codes(list)) {
      named.add(code)
      const failure =
        code === 'RUN_CANCELLED'
          ? new Cancelled('SIGTERM')
          : new EgressError(code as ErrorCode, 'why')
      const record = failureRecord(failure)
      t.equal(record.failure_code, code)
      t.equal(record.status, codes(status)[0], code)
      t.equal(record.retry_class, codes(retry)[0] ?? null, code)
    }
  }
  t.strictSame(rows.at(-1)?.[2], 'every other code')
  for (const code of Object.keys(ERROR_MEANINGS).filter((one) => !named.has(one))) {
    const record = failureRecord(new EgressError(code as ErrorCode, 'why'))
    t.strictSame([record.status, record.retry_class], ['failed', 'deterministic'], code)
  }
})

void tap.test('the table of variables has every one that is read, and no other', async (t) => {
  const rows = tableOf(section('Variables that are read'), '| variable | for | default |')
  const documented = rows.map(([name = '']) => codes(name)[0] ?? '')
  const read = new Set(['TMPDIR'])
  for (const { name, text } of sourceFiles()) {
    for (const [variable] of text.matchAll(/\bITERION_[A-Z_]*[A-Z]\b/g)) read.add(variable)
    if (!name.startsWith('sandbox/') && name !== 'cli/system-io.ts') continue
    for (const [, variable = ''] of text.matchAll(/\benv\['(\w+)'\]/g)) read.add(variable)
    for (const [variable] of text.matchAll(/\b(?:DOCKER|CONTAINER)_HOST(?=')/g)) read.add(variable)
  }
  t.strictSame(documented.toSorted(), [...read].toSorted())
  const DEFAULTS = new Map(KNOBS.map(({ knob, defaultMs }) => [knob, formatGoDuration(defaultMs)]))
  for (const [name = '', , value = ''] of rows) {
    const known = DEFAULTS.get(codes(name)[0] ?? '')
    if (known !== undefined) t.equal(value, known, name)
  }
  const passed = /const PASSED =\s*\/\^\(\?:([^/]*)\)\$\//.exec(
    readPage('src/sandbox/drivers/find-runtime.ts'),
  )?.[1]
  const paragraph = section('Variables that are read').split('\n\n').at(-1) ?? ''
  t.strictSame(
    codes(paragraph).filter((one) => one !== 'LC_ALL=C' && one !== '.env'),
    passed?.split('|').map((one) => one.replace('\\w+', '*')),
  )
})

