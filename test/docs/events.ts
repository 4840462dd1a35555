import { readFileSync } from 'node:fs'
import tap from 'tap'
import { eventJsonSchema } from '../../src/events/event.ts'
import { schemaProblems } from '../support/json-schema.ts'

const PAGE = readFileSync(new URL('../../docs/events.md', import.meta.url), 'utf8')

interface ObjectSchema {
  readonly properties: Readonly<Record<string, ObjectSchema & { const?: unknown; enum?: string[] }>>
  readonly required: readonly string[]
}

const RECORDS = (eventJsonSchema() as { anyOf: ObjectSchema[] }).anyOf

/** The rows of the first table of a part of the page: field, value. */
function rowsOf(part: string): string[][] {
  return [...part.matchAll(/^\| `(\w+\??)` \| (.*?) \| /gm)].map(([, name = '', value = '']) => [
    name,
    value,
  ])
}

/** The fields as the page writes them, `?` behind those that may be missing. */
function fieldsOf(schema: ObjectSchema): string[] {
  return Object.keys(schema.properties).map((name) =>
    schema.required.includes(name) ? name : `${name}?`,
  )
}

void tap.test('docs/events.md has every type with every field', async (t) => {
  const sections = PAGE.split(/^### `(\w+)`$/m).slice(1)
  const types = RECORDS.map(({ properties }) => String(properties['type']?.const))
  t.strictSame(
    sections.filter((_, i) => i % 2 === 0),
    types,
  )
  for (const [i, type] of types.entries()) {
    const data = RECORDS[i]?.properties['data'] as ObjectSchema
    const rows = rowsOf(sections[2 * i + 1] ?? '')
    t.strictSame(
      rows.map(([name]) => name),
      fieldsOf(data),
      type,
    )
    for (const [name = '', value = ''] of rows) {
      const codes = data.properties[name.replace('?', '')]?.enum
      if (codes) t.equal(value, codes.map((code) => `\`${code}\``).join(', '), `${type} ${name}`)
    }
  }
})

void tap.test('docs/events.md has every field of a line', async (t) => {
  const part = PAGE.slice(PAGE.indexOf('\n## A line\n'), PAGE.indexOf('\n## Types\n'))
  t.strictSame(
    rowsOf(part).map(([name]) => name),
    RECORDS.slice(0, 1).flatMap(fieldsOf),
  )
})

void tap.test('the examples of docs/events.md are records', async (t) => {
  const blocks = [...PAGE.matchAll(/```json\n([\s\S]*?)```/g)]
  t.ok(blocks.length > 0)
  for (const [, text = ''] of blocks) {
    t.strictSame(schemaProblems(eventJsonSchema(), JSON.parse(text)), [])
  }
})
