import {
  Composer,
  type Document,
  isAlias,
  isMap,
  isNode,
  isPair,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  Parser,
  YAMLParseError,
} from 'yaml'
import { type ErrorCode, EgressError, type Problem, type SourcePlace } from '../errors.ts'

/** How deep lists and maps may nest: policies need four levels. */
const MAX_DEPTH = 16

/**
 * Characters that make a text read differently than it looks: a carriage return alone (a line end to some readers and
 * none to others), other controls, line and paragraph separators, and marks that turn the direction of writing.
 */
const DECEPTIVE = /\r(?!\n)|[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]/g

/** Errors of the parser behind which the rest of the document still reads as it was meant. */
const LOCAL_ERRORS = new Set(['BAD_ALIAS', 'BAD_SCALAR_START', 'TAG_RESOLVE_FAILED'])

type Path = readonly PropertyKey[]

/**
 * Ends the reading of a text that nests too deeply while its tokens come in. What comes later calls itself for every
 * level, and a stack that runs out inside a regular expression ends the whole process, not the call.
 */
class ShallowParser extends Parser {
  override *next(source: string): ReturnType<Parser['next']> {
    yield* super.next(source)
    if (this.stack.length > 2 * MAX_DEPTH + 8) throw new RangeError('too deep')
  }
}

/** The first document of a text; a second one is an error of it. */
function compose(text: string, lines: LineCounter): Document.Parsed {
  const composer = new Composer({
    merge: false,
    prettyErrors: false,
    schema: 'core',
    stringKeys: true,
    uniqueKeys: false,
    version: '1.2',
  })
  const tokens = new ShallowParser(lines.addNewLine).parse(text)
  let document: Document.Parsed | undefined
  for (const one of composer.compose(tokens, true, text.length)) {
    if (document) {
      document.errors.push(
        new YAMLParseError([one.range[0], one.range[1]], 'MULTIPLE_DOCS', 'several documents'),
      )
      break
    }
    document = one
  }
  if (document === undefined) throw new TypeError('the composer gave no document')
  return document
}

/**
 * A YAML text, or the part of one at a path. Paths start at the part, problems point into the text, and all parts of a
 * text share its list of problems.
 */
export interface YamlPart {
  readonly file: string
  /** Where the part stands in the text; empty for the whole. */
  readonly base: Path
  readonly problems: readonly Problem[]
  /** True if what was read can be looked at further. */
  readonly isReadable: boolean
  /** The part as plain values. */
  toValue(): unknown
  /** Records a problem at a path of the part, or at the nearest place that exists. */
  report(code: ErrorCode, path: Path, message: string, correction?: string): void
  /** Records a problem at a key, not at its value. */
  reportKey(code: ErrorCode, path: Path, key: string, message: string, correction?: string): void
  /** The place of a path's value. */
  placeOf(path: Path): SourcePlace
  /** The text of a line, the first being 1. */
  lineAt(line: number): string
}

/** A YAML text with its problems: everything that later steps find is pointed at through it. */
export class YamlSource implements YamlPart {
  readonly file: string
  readonly base: Path = []
  readonly problems: Problem[] = []
  readonly #text: string
  readonly #lines = new LineCounter()
  readonly #document: Document.Parsed
  readonly #reported = new Set<string>()
  #keys: { map: Node | undefined; offsets: ReadonlyMap<unknown, number | undefined> } = {
    map: undefined,
    offsets: new Map(),
  }
  #readable = true

  /**
   * Reads the text. YAML beyond plain maps, lists and scalars (tags, anchors, aliases, merge keys, directives, several
   * documents) and every warning of the parser is a problem: quietly read, it makes another policy than was written.
   *
   * @throws {EgressError} POLICY_SYNTAX when the text nests deeper than any policy does
   */
  constructor(text: string, file: string) {
    this.file = file
    this.#text = text.startsWith('\ufeff') ? text.slice(1) : text
    try {
      this.#document = compose(this.#text, this.#lines)
      this.#checkDocument()
    } catch (error) {
      if (error instanceof RangeError) {
        throw new EgressError('POLICY_SYNTAX', `${file}: lists and maps nest too deeply`, {
          cause: error,
        })
      }
      throw error
    }
  }

  get isReadable(): boolean {
    return this.#readable
  }

  /** What stands at a path; nothing if there is no such place. */
  part(base: Path): YamlPart {
    return {
      file: this.file,
      base,
      problems: this.problems,
      isReadable: this.#readable,
      toValue: () => plainValue(this.#nodeAt(base)),
      report: (code, path, ...rest) => this.report(code, [...base, ...path], ...rest),
      reportKey: (code, path, ...rest) => this.reportKey(code, [...base, ...path], ...rest),
      placeOf: (path) => this.placeOf([...base, ...path]),
      lineAt: (line) => this.lineAt(line),
    }
  }

  toValue(): unknown {
    return plainValue(this.#document.contents)
  }

  report(code: ErrorCode, path: Path, message: string, correction?: string): void {
    this.#reportAt(code, this.#offsetOf(path), message, correction)
  }

  reportKey(code: ErrorCode, path: Path, key: string, message: string, correction?: string): void {
    const offset = this.#keyOffsets(this.#nodeAt(path)).get(key)
    this.#reportAt(code, offset ?? this.#offsetOf(path), message, correction)
  }

  /** Where the keys of a map stand, found once for each map. */
  #keyOffsets(map: Node | undefined): ReadonlyMap<unknown, number | undefined> {
    if (this.#keys.map !== map || map === undefined) {
      const offsets = new Map<unknown, number | undefined>()
      for (const { key } of isMap(map) ? map.items : []) {
        if (isScalar(key) && !offsets.has(key.value)) offsets.set(key.value, key.range?.[0])
      }
      this.#keys = { map, offsets }
    }
    return this.#keys.offsets
  }

  placeOf(path: Path): SourcePlace {
    return this.#place(this.#offsetOf(path))
  }

  #checkCharacters(): void {
    for (const { 0: char, index } of this.#text.matchAll(DECEPTIVE)) {
      const code = (char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')
      const at = this.#place(index)
      // The rest of the line is looked at all the same: the parser reads past such a character.
      this.problems.push({
        code: 'POLICY_SYNTAX',
        message: `the character U+${code} is not allowed`,
        at,
        sourceLine: this.lineAt(at.line),
      })
    }
  }

  #checkDocument(): void {
    this.#checkCharacters()
    const { errors, warnings, contents, directives } = this.#document
    if (directives?.yaml.explicit || Object.keys(directives?.tags ?? {}).length > 1) {
      this.#reportAt('POLICY_SYNTAX', 0, 'YAML directives are not allowed')
    }
    this.#checkNode(contents, 0)
    for (const error of errors) {
      const offset = error.pos[0]
      if (error.code === 'MULTIPLE_DOCS') {
        this.#reportAt('POLICY_SYNTAX', offset, 'a file holds one document')
        continue
      }
      if (!LOCAL_ERRORS.has(error.code)) this.#readable = false
      this.#refuse(offset, sentence(error.message))
    }
    for (const warning of warnings) {
      this.#refuse(warning.pos[0], sentence(warning.message))
    }
  }

  /** Reports what YAML reads otherwise than it looks; once a line, since the rest of the line follows from it. */
  #refuse(offset: number, message: string): void {
    if (this.#reported.has(`${this.#place(offset).line}`)) return
    this.#reportAt('POLICY_SYNTAX', offset, message, this.#quoted(offset))
  }

  #checkNode(node: unknown, depth: number): void {
    if (depth > MAX_DEPTH) throw new RangeError('too deep')
    if (isPair(node)) {
      this.#checkNode(node.key, depth)
      this.#checkNode(node.value, depth)
      return
    }
    if (!isNode(node)) return
    const offset = node.range?.[0] ?? 0
    if (isAlias(node)) {
      this.#refuse(offset, 'YAML aliases are not allowed: * starts one unless it is quoted')
      return
    }
    if (node.tag !== undefined) {
      this.#refuse(
        this.#markOffset(offset, '!'),
        'YAML tags are not allowed: ! starts one unless it is quoted',
      )
    }
    if (node.anchor !== undefined && node.anchor !== '') {
      this.#refuse(
        this.#markOffset(offset, '&'),
        'YAML anchors are not allowed: & starts one unless it is quoted',
      )
    }
    if (isMap(node)) this.#checkKeys(node.items)
    if (isMap(node) || isSeq(node)) for (const item of node.items) this.#checkNode(item, depth + 1)
  }

  #checkKeys(items: readonly { key: unknown }[]): void {
    const seen = new Set<unknown>()
    for (const { key } of items) {
      if (!isScalar(key)) continue
      const offset = key.range?.[0] ?? 0
      if (key.value === '<<')
        this.#reportAt('POLICY_SYNTAX', offset, 'YAML merge keys are not allowed')
      else if (seen.has(key.value)) {
        this.#reportAt(
          'POLICY_SHAPE',
          offset,
          `the key ${JSON.stringify(key.value)} is given twice`,
        )
      }
      seen.add(key.value)
    }
  }

  /** Where the tag (`!`) or anchor (`&`) in front of a value starts, be it on a line before. */
  #markOffset(offset: number, mark: '!' | '&'): number {
    if (this.#text[offset] === mark) return offset
    for (let end = offset; end > 0;) {
      while (end > 0 && /\s/.test(this.#text[end - 1] ?? '')) end--
      let start = end
      while (start > 0 && /[^\s,[\]{}]/.test(this.#text[start - 1] ?? '')) start--
      const word = this.#text[start]
      if (word === mark) return start
      if (start === end || (word !== '!' && word !== '&')) break
      end = start
    }
    return offset
  }

  /** The rest of the line as quoted text, where a quoted text is what was meant. */
  #quoted(offset: number): string | undefined {
    const { line } = this.#place(offset)
    const item = /^\s*-\s+(?=[!*&|>%@`[{])(.+?)\s*(?:\s#.*)?$/.exec(this.lineAt(line))?.[1]
    if (item === undefined || /^[{]/.test(item)) return undefined
    const words = item.startsWith('!') ? item.split(/\s+/) : [item]
    return words.map((word) => `- ${JSON.stringify(word)}`).join(' and on its own line ')
  }

  #reportAt(code: ErrorCode, offset: number, message: string, correction?: string): void {
    const at = this.#place(offset)
    // Behind what YAML misread nothing else is reported on its line.
    const key = code === 'POLICY_SYNTAX' ? `${at.line}` : `${at.line}:${at.column}:${message}`
    if (this.#reported.has(`${at.line}`) || this.#reported.has(key)) return
    this.#reported.add(key)
    const sourceLine = this.lineAt(at.line)
    this.problems.push({
      code,
      message,
      at,
      sourceLine,
      ...(correction !== undefined && { correction }),
    })
  }

  #place(offset: number): SourcePlace {
    const { line, col } = this.#lines.linePos(Math.min(offset, this.#text.length))
    return { file: this.file, line: Math.max(1, line), column: Math.max(1, col) }
  }

  lineAt(line: number): string {
    const start = this.#lines.lineStarts[line - 1] ?? 0
    const end = this.#text.indexOf('\n', start)
    return this.#text.slice(start, end === -1 ? undefined : end).replace(/\r$/, '')
  }

  #nodeAt(path: Path): Node | undefined {
    const node = path.length === 0 ? this.#document.contents : this.#document.getIn(path, true)
    return isNode(node) ? node : undefined
  }

  #offsetOf(path: Path): number {
    for (let length = path.length; length >= 0; length--) {
      const offset = this.#nodeAt(path.slice(0, length))?.range?.[0]
      if (offset !== undefined) return offset
    }
    return 0
  }
}

/** The value of a node; an alias is nothing, since it has been refused. */
function plainValue(node: unknown): unknown {
  if (isScalar(node)) return node.value
  if (isSeq(node)) return node.items.map(plainValue)
  if (!isMap(node)) return null
  return Object.fromEntries(
    node.items.map(({ key, value }) => [isScalar(key) ? String(key.value) : '', plainValue(value)]),
  )
}

function sentence(message: string): string {
  const first = (message.split('\n')[0] ?? message).replace(/:?$/, '')
  return first.charAt(0).toLowerCase() + first.slice(1)
}
