import type { Test } from 'tap'
import { type EgressEvent, eventJsonSchema } from '../../src/events/event.ts'
import { schemaProblems } from './json-schema.ts'

/** One line of an event log. */
export interface EventRecord {
  readonly v: number
  readonly seq: number
  readonly ts: string
  readonly run_id: string | null
  readonly type: string
  readonly data: Readonly<Record<string, unknown>>
}

const SCHEMA = eventJsonSchema()

/** A record of about so many bytes, told apart by its number. */
export const wide = (number: number, bytes = 1_000): EgressEvent => ({
  type: 'policy_rejected',
  data: { message: `${number} ${'x'.repeat(bytes)}` },
})

/** The records of a log, each held to the schema, numbered without gaps. */
export function recordsOf(t: Test, text: string): EventRecord[] {
  t.ok(text === '' || text.endsWith('\n'), 'the last line is whole')
  const records = text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as EventRecord)
  const problems = records.flatMap((record) => schemaProblems(SCHEMA, record))
  t.strictSame(problems.slice(0, 5), [], 'each record is by the schema')
  const gap = records.find(({ seq }, i) => seq !== i + 1)
  t.equal(gap, undefined, 'the numbers have no gaps')
  return records
}
