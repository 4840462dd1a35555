import { readdirSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { EgressError, problemsError, type SourcePlace } from '../errors.ts'
import { nearWords } from '../policy/near.ts'
import { parsePreset, type PresetSource } from '../policy/parse.ts'
import { type CompiledPresets, findCompiled, readCompiled } from './compiled.ts'
import { readSource } from './read-source.ts'

const BUILT_IN_DIR = fileURLToPath(new URL('../../presets', import.meta.url))
const FILE_ENDING = '.yaml'

/** The presets that can be named. */
export interface Catalog {
  /** Their names, sorted. */
  readonly names: readonly string[]
  /**
   * The preset of a name, or of a path (whatever holds a slash or ends in .yaml), read when first asked for.
   *
   * @throws {EgressError} PRESET_UNKNOWN with near names; FILE_UNREADABLE; all that `parsePreset` throws
   */
  get(name: string, at?: SourcePlace): PresetSource
  /** What is wrong with a name; undefined for a known preset and for a path. */
  check(name: string): string | undefined
  /** Where the preset of a name is read from. */
  fileOf(name: string): string | undefined
}

interface CatalogOptions {
  /** Folders with more presets. A file there that bears the name of another preset is an error. Default: none. */
  readonly dirs?: readonly string[]
  /** What the build has read already. Default: what came with this program. */
  readonly compiled?: CompiledPresets
}

/**
 * Lists the built-in presets and those in the given folders.
 *
 * @throws {EgressError} FILE_UNREADABLE for a folder that cannot be read; OPTION_INVALID for a name that is taken
 */
export function createCatalog(options: CatalogOptions = {}): Catalog {
  const files = new Map<string, string>()
  for (const dir of [BUILT_IN_DIR, ...(options.dirs ?? [])]) {
    for (const name of presetNamesIn(dir)) {
      const taken = files.get(name)
      const file = path.join(dir, name + FILE_ENDING)
      if (taken !== undefined) {
        throw new EgressError('OPTION_INVALID', `${file}: the preset name ${name} is taken by ${taken}`)
      }
      files.set(name, file)
    }
  }
  let { compiled } = options
  const loaded = new Map<string, PresetSource>()
  const load = (file: string): PresetSource => {
    const known = loaded.get(file)
    if (known) return known
    const text = readSource(file)
    compiled ??= readCompiled()
    const preset = findCompiled(compiled, text, file) ?? parsePreset(text, file)
    loaded.set(file, preset)
    return preset
  }
  const names = [...files.keys()].toSorted()
  return {
    names,
    check: (name) => (isPresetPath(name) || files.has(name) ? undefined : unknownPreset(name, names)),
    fileOf: (name) => files.get(name),
    get(name, at) {
      if (isPresetPath(name)) return load(at ? path.resolve(path.dirname(at.file), name) : name)
      const file = files.get(name)
      if (file === undefined) {
        const problem = { code: 'PRESET_UNKNOWN' as const, message: unknownPreset(name, names) }
        throw problemsError([{ ...problem, ...(at && { at }) }])
      }
      const preset = load(file)
      if (preset.name === name) return preset
      throw new EgressError('POLICY_SHAPE', `${file}: the preset calls itself ${preset.name}; its file name says ${name}`)
    },
  }
}

/** True for the path of a preset file, false for the name of a preset. */
export function isPresetPath(name: string): boolean {
  return name.includes('/') || name.endsWith(FILE_ENDING) || name.endsWith('.yml')
}

function presetNamesIn(dir: string): string[] {
  try {
    return readdirSync(dir)
      .filter((file) => file.endsWith(FILE_ENDING))
      .map((file) => file.slice(0, -FILE_ENDING.length))
  } catch (error) {
    throw new EgressError('FILE_UNREADABLE', `${dir}: the folder of presets cannot be read`, { cause: error })
  }
}

function unknownPreset(name: string, names: readonly string[]): string {
  const near = nearWords(name, names)
  const hint = near.length > 0 ? `did you mean ${near.join(' or ')}?` : `there are ${names.join(', ')}`
  return `there is no preset ${JSON.stringify(name)}; ${hint}`
}
