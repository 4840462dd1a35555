type Schema = Readonly<Record<string, unknown>>

/**
 * What is wrong with a value by a JSON Schema, for the keywords that our schemas use. A keyword that is not known here
 * is a problem too.
 */
export function schemaProblems(schema: Schema, value: unknown, path = '$'): string[] {
  const problems: string[] = []
  for (const [keyword, operand] of Object.entries(schema)) {
    problems.push(...check(keyword, operand, value, schema, path))
  }
  return problems
}

function check(
  keyword: string,
  operand: unknown,
  value: unknown,
  schema: Schema,
  path: string,
): string[] {
  const fail = (isWrong: boolean) => (isWrong ? [`${path}: ${keyword}`] : [])
  switch (keyword) {
    case '$schema':
    case 'title':
    case 'description':
      return []
    case 'type':
      return fail(![operand].flat().some((type) => isOfType(value, String(type))))
    case 'const':
      return fail(value !== operand)
    case 'enum':
      return fail(!(operand as unknown[]).includes(value))
    case 'anyOf': {
      const all = (operand as Schema[]).map((one) => schemaProblems(one, value, path))
      return all.some((one) => one.length === 0) ? [] : [`${path}: anyOf`]
    }
    case 'minimum':
      return fail(!(Number(value) >= Number(operand)))
    case 'exclusiveMinimum':
      return fail(!(Number(value) > Number(operand)))
    case 'maximum':
      return fail(!(Number(value) <= Number(operand)))
    case 'required':
      return (operand as string[])
        .filter((name) => !Object.hasOwn(Object(value), name))
        .map((name) => `${path}.${name}: required`)
    case 'items':
      return (Array.isArray(value) ? value : []).flatMap((one, i) =>
        schemaProblems(operand as Schema, one, `${path}[${i}]`),
      )
    case 'additionalProperties': {
      const known = Object.keys(schema['properties'] ?? {})
      return operand === false
        ? Object.keys(Object(value))
            .filter((name) => !known.includes(name))
            .map((name) => `${path}.${name}: additionalProperties`)
        : []
    }
    case 'properties':
      return Object.entries(operand as Record<string, Schema>).flatMap(([name, inner]) => {
        const found = (Object(value) as Record<string, unknown>)[name]
        return found === undefined ? [] : schemaProblems(inner, found, `${path}.${name}`)
      })
    default:
      return [`${path}: the keyword ${keyword} is not known`]
  }
}

function isOfType(value: unknown, type: string): boolean {
  if (type === 'integer') return Number.isInteger(value)
  if (type === 'null') return value === null
  if (type === 'array') return Array.isArray(value)
  if (type === 'object') return typeof value === 'object' && value !== null && !Array.isArray(value)
  return typeof value === type
}
