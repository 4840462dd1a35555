import type { Test } from 'tap'
import type { ClientRun } from '../clients/run-client.ts'
import { hasInOrder, tidy } from '../clients/record.ts'
import { readPage, sectionOf, tableOf } from '../page.ts'
import type { Inside } from './inside.ts'
import type { UnawareProgram } from './unaware-program.ts'

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
  /** The doors behind which it works. */
  readonly doors: readonly string[]
  /** What is shown of a name that no rule allows, and of a port. */
  readonly refusals: { readonly name: string; readonly port: string }
}

const SECTION = 'Programs that know of no proxy'
const HEAD =
  '| program | version | works behind | of a name that no rule allows it shows | of a port that no rule allows it shows |'

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
  inside: Inside,
): Promise<void> {
  const { code, stdout, output } = await inside.run(ask(host, port, 'allowed'))
  const isShown = typeof shows === 'string' ? stdout === shows : shows.test(output)
  t.ok(code === 0 && isShown, `${name} is served`, { code, output: output.slice(-4_000) })
}

/** Checks what a refused program showed against its cell. With SHOW_CLIENTS=1 the test prints the text as well. */
export function holdRefusal(
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
