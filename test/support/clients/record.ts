import { readFileSync } from 'node:fs'
import type { Test } from 'tap'

// The table of docs/clients.md is the record of what clients do with a refusal. Its cells read
//
//     **exit 56; status**: `the text … with gaps`
//
// The bold part holds for every version of a client, the text for the version in the row.

/** The row of a client, and the version that is installed here. */
export interface Client {
  readonly name: string
  readonly version: string
}

/** How a refused request ended, and everything that a person could have read of it. */
export interface Shown {
  /** `exit 56`, `throws`, or `answers 403`. */
  readonly outcome: string
  readonly text: string
  /** The target that was refused. */
  readonly host: string
  readonly port: number
}

/** The refused host as the table spells it, whichever was asked for. */
const SHOWN_HOST = 'evil.denied.test'

type Column = 'connect' | 'plain'

/** Checks what a client showed against its row. With SHOW_CLIENTS=1 the test prints the text as well. */
export function holdRecord(t: Test, { name, version }: Client, column: Column, shown: Shown): void {
  const target = `${SHOWN_HOST}:${shown.port}`
  const text = tidy(shown.text).replaceAll(shown.host, SHOWN_HOST)
  if (process.env['SHOW_CLIENTS'])
    t.comment(`${name} ${version}, ${column}: ${shown.outcome}: ${text}`)
  const row = readRow(name)
  if (row === undefined) {
    t.fail(`docs/clients.md has no row for ${name}`)
    return
  }
  const cell = row[column]
  const found = /^\*\*(.+?)\*\*(?:: `(.+)`)?$/.exec(cell)
  const summary = `${shown.outcome}; ${partsIn(text, target)}`
  t.equal(summary, found?.[1], `${name} shows of a refusal what docs/clients.md says`)
  if (row.version !== version || found?.[2] === undefined) return
  const pieces = found[2].split('…').map((piece) => piece.trim())
  t.ok(hasInOrder(text, pieces), `${name} ${version} prints the text of docs/clients.md`, {
    text,
    pieces,
  })
}

/** Checks which proxy variables a client reads against its row. */
export function holdVariables(t: Test, name: string, variables: readonly string[]): void {
  const found = variables.map((variable) => `\`${variable}\``).join(', ')
  t.equal(found, readRow(name)?.variables, `${name} reads what docs/clients.md says`)
}

/** Which parts of a refusal a text holds. */
function partsIn(text: string, target: string): string {
  const phrase = `egress denied: no rule allows ${target}`
  const gap = String.raw`(?:\s|\\n|remote:)+`
  const lines = [phrase.replaceAll('.', String.raw`\.`), 'reason: no-rule', 'a rule that would']
  const body = new RegExp(lines.join(gap))
  const withoutBody = text.replace(body, '')
  const parts = [
    /\b403\b/.test(withoutBody) && 'status',
    withoutBody.includes(phrase) && 'reason phrase',
    /x-iterion-reason/i.test(withoutBody) && 'headers',
    withoutBody !== text && 'body',
  ]
  return parts.filter((part) => part !== false).join(', ') || 'nothing'
}

/** One line, without what differs from run to run. */
export function tidy(text: string): string {
  return text
    .replaceAll(/127\.0\.0\.1:\d+/g, 'PROXY')
    .replaceAll(/\b0x[0-9a-f]{6,}/g, '0x0')
    .replaceAll(/\s+/g, ' ')
    .trim()
}

/** True if a text holds all pieces, one behind the other. */
export function hasInOrder(text: string, pieces: readonly string[]): boolean {
  let from = 0
  return pieces.every((piece) => {
    const at = text.indexOf(piece, from)
    from = at + piece.length
    return at !== -1
  })
}

interface Row {
  readonly version: string
  readonly connect: string
  readonly plain: string
  /** The proxy variables that the client reads. */
  readonly variables: string
}

function readRow(name: string): Row | undefined {
  const page = readFileSync(new URL('../../../docs/clients.md', import.meta.url), 'utf8')
  for (const line of page.split('\n')) {
    const cells = line.split('|').map((cell) => cell.trim())
    const [, client, version = '', connect = '', plain = '', variables = ''] = cells
    if (client === name) return { version, connect, plain, variables }
  }
  return undefined
}
