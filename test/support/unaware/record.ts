import type { Test } from 'tap'
import type { EventData } from '../../../src/events/event.ts'
import type { ClientRun } from '../clients/run-client.ts'
import { hasInOrder, tidy } from '../clients/record.ts'
import { readPage, sectionOf, tableOf } from '../page.ts'
import type { FarSide } from './far-side.ts'
import type { ProgramRunner } from './program-runner.ts'
import { REFUSALS, type UnawareProgram } from './unaware-program.ts'

// The table of docs/clients.md with programs that know of no proxy. Its cells read
//
//     **exit 35 or 7**: `the text … with gaps` or `another text`
//
// The bold part holds for every version of a program, the text for the version in the row. There is an `or` where a reset
// is seen by one call of the program or by another.

/** A row of the table. */
export interface UnawareRow {
  readonly name: string
  readonly version: string
  /** The doors behind which it works, and `wrap`. */
  readonly doors: readonly string[]
  /** What is shown of a name that no rule allows, and of a port. */
  readonly refusals: { readonly name: string; readonly port: string }
}

const OWN_NAMES = /^(?:evil\.denied|web\.allowed)\.test:/
const SECTION = 'Programs that know of no proxy'
const HEAD =
  '| program | version | works behind | of a name that no rule allows it shows | of a port that only rules for other names open it shows |'

/** The rows of the table, in order. */
export function unawareRows(): UnawareRow[] {
  return tableOf(sectionOf(readPage('docs/clients.md'), SECTION), HEAD).map((cells) => {
    const [row = '', version = '', doors = '', name = '', port = ''] = cells
    return { name: row, version, doors: doors.split(', '), refusals: { name, port } }
  })
}

/** Checks that a program is served by the host that it is for. */
export async function holdServed(
  t: Test,
  { name, host, port, ask, shows }: UnawareProgram,
  inside: ProgramRunner,
): Promise<void> {
  const { code, stdout, output } = await inside.run(ask(host, port, 'allowed'))
  const isShown = typeof shows === 'string' ? stdout === shows : shows.test(output)
  t.ok(code === 0 && isShown, `${name} is served`, { code, output: output.slice(-4_000) })
}

/** What a program is held to. */
export interface UnawareTrial {
  readonly program: UnawareProgram
  readonly inside: ProgramRunner
  /** Behind what it runs: a door, or `wrap`. */
  readonly behind: string
  readonly far: FarSide
}

/** Checks that a program is served, and refused as its row says. */
export async function holdRow(
  t: Test,
  rows: readonly UnawareRow[],
  { program, inside, behind, far }: UnawareTrial,
): Promise<void> {
  const { name, version, ask } = program
  const row = rows.find((one) => one.name === name)
  t.ok(row?.doors.includes(behind), 'docs/clients.md says that it works')
  const told = await inside.run({ words: version.words })
  const installed = version.pattern.exec(told.output)?.[1] ?? 'unknown'
  await holdServed(t, program, inside)
  for (const refusal of REFUSALS) {
    const before = far.connections()
    const words = ask(refusal.host, refusal.port(program), refusal.column)
    holdRefusal(t, row, installed, refusal.column, await inside.run(words))
    t.equal(far.connections(), before, 'the servers saw nothing')
  }
}

/** Checks that the events have every refusal of {@link holdRow}. */
export function holdBlocks(t: Test, events: readonly EventData<'network_blocked'>[]): void {
  const lines = events
    .map(({ host, port, via, reason }) => `${host}:${port} ${via} ${reason}`)
    .filter((line) => OWN_NAMES.test(line))
  t.strictSame(
    [...new Set(lines)].toSorted(),
    [
      'evil.denied.test:0 transparent no-rule',
      'web.allowed.test:22 transparent port',
      'web.allowed.test:5432 transparent port',
      'web.allowed.test:8443 transparent port',
    ],
    'the events have every refusal',
  )
}

/** Checks what a refused program showed against its cell. With SHOW_CLIENTS=1 the test prints the text as well. */
function holdRefusal(
  t: Test,
  row: UnawareRow | undefined,
  version: string,
  column: 'name' | 'port',
  { code, output }: ClientRun,
): void {
  const text = tidy(output)
  if (process.env['SHOW_CLIENTS']) t.comment(`${column}: exit ${code}: ${text.slice(-2_000)}`)
  const cell = row?.refusals[column] ?? ''
  const [, codes = '', texts = ''] = /^\*\*exit ([\d or]+)\*\*: (.+)$/.exec(cell) ?? []
  t.ok(codes.split(' or ').includes(String(code)), `exit ${code} is one of ${codes}`)
  if (row?.version !== version) return
  const wanted = [...texts.matchAll(/`([^`]+)`/g)].map(([, one = '']) => one.split(/ ?… ?/))
  const found = wanted.some((pieces) => hasInOrder(text, pieces))
  t.ok(found, `it prints the text of docs/clients.md`, { text: text.slice(-4_000), wanted })
}
