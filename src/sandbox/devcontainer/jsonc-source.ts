import {
  createScanner,
  type Node,
  type ParseError,
  parseTree,
  printParseErrorCode,
} from 'jsonc-parser'
import {
  type EgressError,
  type ErrorCode,
  type Problem,
  problemsError,
  type SourcePlace,
} from '../../errors.ts'

/** How deep objects and lists may stand in each other. */
const MAX_DEPTH = 64
/** How many problems of a file are told; whoever has more knows by then. */
const MAX_PROBLEMS = 50
/** The most that a message holds, in characters: what it quotes may be long. */
const MAX_MESSAGE = 500

/** A place in a JSON document: keys and indexes from the root. */
export type JsonPath = readonly (string | number)[]

/** A JSON text with comments and its problems: everything that later steps find is pointed at through it. */
export class JsoncSource {
  /** The path as it is to be shown. */
  readonly file: string
  readonly problems: Problem[] = []
  readonly #lines: readonly string[]
  readonly #root: Node | undefined

  /** A byte order mark and CR before LF are no part of the text. */
  constructor(text: string, file: string) {
    this.file = file
    const plain = text.replace(/^\u{feff}/u, '').replaceAll('\r\n', '\n')
    this.#lines = plain.split('\n')
    if (isTooDeep(plain)) {
      this.#reportAt('DEVCONTAINER_INVALID', 0, `nested deeper than ${MAX_DEPTH} levels`)
      this.#root = undefined
      return
    }
    const errors: ParseError[] = []
    this.#root = parseTree(plain, errors, { allowTrailingComma: true })
    for (const { error, offset } of errors) {
      this.#reportAt('DEVCONTAINER_INVALID', offset, `no JSON: ${inWords(error)}`)
    }
    if (errors.length === 0 && this.#root !== undefined) this.#checkTexts(this.#root)
  }

  /** The whole value. @throws {EgressError} DEVCONTAINER_INVALID with all problems of the syntax */
  value(): unknown {
    if (this.problems.length > 0) throw this.error()
    return this.#root && plainValue(this.#root)
  }

  /** The error with all problems, from the top to the end of the file. */
  error(): EgressError {
    return problemsError(
      this.problems.toSorted(
        ({ at: a }, { at: b }) =>
          (a?.line ?? 0) - (b?.line ?? 0) || (a?.column ?? 0) - (b?.column ?? 0),
      ),
    )
  }

  /** Reports a problem of a value; of one that is not there, at the nearest one around it. */
  report(code: ErrorCode, path: JsonPath, message: string): void {
    if (this.problems.length >= MAX_PROBLEMS) return
    let node = this.#root
    for (const step of path) {
      const next = node && childOf(node, step)
      if (next === undefined) break
      node = next
    }
    this.#reportAt(code, node?.offset ?? 0, message)
  }

  #reportAt(code: ErrorCode, offset: number, message: string): void {
    if (this.problems.length >= MAX_PROBLEMS) return
    const at = this.#placeAt(offset)
    const short = message.length > MAX_MESSAGE ? `${message.slice(0, MAX_MESSAGE)}…` : message
    this.problems.push({ code, message: short, at, sourceLine: this.#lines[at.line - 1] ?? '' })
  }

  #placeAt(offset: number): SourcePlace {
    let line = 0
    let start = 0
    for (const { length } of this.#lines) {
      if (start + length >= offset) break
      line += 1
      start += length + 1
    }
    return { file: this.file, line: line + 1, column: offset - start + 1 }
  }

  /** Two keys of one name: readers differ in which of them counts, so neither does. The same goes for what is no text. */
  #checkTexts(node: Node): void {
    if (node.type === 'string' && /[\0\p{Cs}]/u.test(String(node.value))) {
      const message = 'a text with NUL, or with half of a character'
      this.#reportAt('DEVCONTAINER_INVALID', node.offset, message)
    }
    if (node.type === 'object') {
      const seen = new Set<string>()
      for (const { children: [key] = [] } of node.children ?? []) {
        const name = String(key?.value)
        if (seen.has(name)) {
          const message = `the key ${JSON.stringify(name)} is given twice`
          this.#reportAt('DEVCONTAINER_INVALID', key?.offset ?? 0, message)
        }
        seen.add(name)
      }
    }
    for (const child of node.children ?? []) this.#checkTexts(child)
  }
}

/** Brackets as the parser sees them, counted without going down: it skips one that closes what is not open. */
function isTooDeep(text: string): boolean {
  const scanner = createScanner(text, true)
  const closing: string[] = []
  for (;;) {
    scanner.scan()
    const first = text[scanner.getTokenOffset()]
    if (first === undefined) return false
    if (first === '{') closing.push('}')
    else if (first === '[') closing.push(']')
    else if (first === closing.at(-1)) closing.pop()
    if (closing.length > MAX_DEPTH) return true
  }
}

/** `__proto__` is a key like another, and not what an object is made of. */
function plainValue(node: Node): unknown {
  switch (node.type) {
    case 'object':
      return Object.fromEntries(
        (node.children ?? []).map(({ children: [key, value] = [] }) => [
          String(key?.value),
          value && plainValue(value),
        ]),
      )
    case 'array':
      return (node.children ?? []).map(plainValue)
    default:
      return node.value as unknown
  }
}

function childOf(node: Node, step: string | number): Node | undefined {
  if (node.type === 'array') return node.children?.[Number(step)]
  const property = node.children?.find(({ children: [key] = [] }) => key?.value === step)
  return property?.children?.[1]
}

function inWords(error: ParseError['error']): string {
  return printParseErrorCode(error)
    .replaceAll(/([A-Z])/g, ' $1')
    .trim()
    .toLowerCase()
}
