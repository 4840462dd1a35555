import { escapeControls } from '../../errors.ts'
import { fitsVariable } from '../env-file.ts'
import { isEnvName } from '../workflow-schema.ts'
import type { JsonPath, JsoncSource } from './jsonc-source.ts'
import { expandVariables, type VariableValues } from './variables.ts'

/** How much of what does nothing is told, and of each how many characters. */
const MAX_TOLD = 100
const MAX_NAME = 100
/** How many commands may run at once. */
const MAX_AT_ONCE = 16

/** A command as written: a line for `sh`, or words. */
export type Command = string | readonly string[]

/** Something that a devcontainer.json says and that does nothing here. */
export interface IgnoredKey {
  readonly key: string
  readonly reason: string
}

/** What a text has to be. */
export interface TextForm {
  readonly test: (text: string) => boolean
  readonly name: string
}

/** A name as it can be shown to people: a repository wrote it. */
function shown(name: string): string {
  return escapeControls(name.slice(0, MAX_NAME))
}

/** Reads values of a devcontainer.json: each of the right kind, its variables filled in, every problem reported at its place. */
export class ValueReader {
  readonly source: JsoncSource
  readonly ignored: IgnoredKey[] = []
  /** What variables stand for from here on. */
  values: VariableValues
  readonly #withheld = new Set<string>()

  constructor(source: JsoncSource, values: VariableValues) {
    this.source = source
    this.values = values
  }

  /** Variables of the host that were asked for and not given. */
  get withheld(): readonly string[] {
    return [...this.#withheld]
  }

  /** One command, or several that run at once. */
  commands(path: JsonPath, written: unknown): Command[] {
    if (written === undefined || written === '') return []
    if (typeof written === 'object' && written !== null && !Array.isArray(written)) {
      if (Object.keys(written).length > MAX_AT_ONCE) {
        this.invalid(path, `at most ${MAX_AT_ONCE} commands run at once`)
        return []
      }
      return Object.entries(written)
        .map(([name, one]) => this.#command([...path, name], one))
        .filter((command) => command !== undefined)
    }
    const command = this.#command(path, written)
    return command === undefined ? [] : [command]
  }

  #command(path: JsonPath, written: unknown): Command | undefined {
    if (typeof written === 'string') return this.text(path, written)
    const words = this.list(path, written)
    if (Array.isArray(written) && (words[0] === undefined || words[0] === '')) {
      this.invalid(path, 'a command is a line or a list of words')
      return undefined
    }
    return words
  }

  /** Variables with their values. */
  record(path: JsonPath, written: unknown): Record<string, string> {
    if (written === undefined) return {}
    if (typeof written !== 'object' || written === null || Array.isArray(written)) {
      this.invalid(path, 'expected an object of texts')
      return {}
    }
    const found: Record<string, string> = {}
    for (const [name, value] of Object.entries(written)) {
      if (value === null && path[0] === 'remoteEnv') {
        this.ignore(`remoteEnv.${name}`, 'a variable of the container is not taken back')
        continue
      }
      const text = this.#variable([...path, name], value)
      if (text !== undefined && this.isVariable([...path, name], name, text)) found[name] = text
    }
    return found
  }

  /** True for a variable that engines and shells read as it is written. */
  isVariable(path: JsonPath, name: string, value: string): boolean {
    if (!isEnvName(name)) {
      this.unsafe(path, `${JSON.stringify(name)} is no name of a variable`)
      return false
    }
    if (/[^\P{Cc}\t]/u.test(value)) {
      this.unsafe(path, `the value of ${name} has a control character`)
      return false
    }
    if (!fitsVariable(name, value)) {
      this.unsafe(path, `${name} is too large: a variable and its name have less than 128 KiB`)
      return false
    }
    return true
  }

  /** A list of texts. */
  list(path: JsonPath, written: unknown): string[] {
    if (written === undefined) return []
    if (!Array.isArray(written)) {
      this.invalid(path, 'expected a list of texts')
      return []
    }
    return written.map((one: unknown, index) => this.text([...path, index], one) ?? '')
  }

  /** A text of a form. */
  checked(path: JsonPath, value: unknown, { test, name }: TextForm): string | undefined {
    const text = this.text(path, value)
    if (text === undefined || test(text)) return text
    this.unsafe(path, `${JSON.stringify(text)} is not ${name}`)
    return undefined
  }

  /** A text with its variables filled in; undefined if there is none. */
  text(path: JsonPath, value: unknown): string | undefined {
    if (value === undefined) return undefined
    if (typeof value === 'string') return this.expand(value)
    this.invalid(path, 'expected a text')
    return undefined
  }

  /** The value of a variable. What the operator gives this run goes there alone: other texts end up in arguments. */
  #variable(path: JsonPath, value: unknown): string | undefined {
    const isForCommands = path[0] === 'containerEnv' || path[0] === 'remoteEnv'
    if (typeof value !== 'string' || !isForCommands) return this.text(path, value)
    return this.expand(value, this.values)
  }

  /** Fills the variables of a text in. */
  expand(text: string, values: VariableValues = { ...this.values, operatorEnv: {} }): string {
    const { text: expanded, withheld } = expandVariables(text, values)
    for (const name of withheld) {
      if (this.#withheld.size < MAX_TOLD) this.#withheld.add(shown(name))
    }
    return expanded
  }

  /** What is long, or much, is the file's own fault: the rest of it is not told. */
  ignore(key: string, reason: string): void {
    if (this.ignored.length < MAX_TOLD) this.ignored.push({ key: shown(key), reason })
  }

  /** Reports a value of the wrong kind. */
  invalid(path: JsonPath, message: string): void {
    this.source.report('DEVCONTAINER_INVALID', path, `${path.join('.')}: ${message}`)
  }

  /** Reports a value that would open the sandbox, or that is read in two ways. */
  unsafe(path: JsonPath, reason: string): void {
    this.source.report('SANDBOX_SPEC_UNSAFE', path, `${path.join('.')}: ${reason}`)
  }
}
