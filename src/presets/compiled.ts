import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import type { PresetSource } from '../policy/parse.ts'

/** A preset as a build keeps it: read and checked, without what belongs to the place of its file. */
type CompiledPreset = Omit<PresetSource, 'file'>

/** Presets by the digest of the text that they were read from. */
export type CompiledPresets = ReadonlyMap<string, CompiledPreset>

/** Beside the programs, where the build writes it. A tree of sources has none. */
const FILE = import.meta.filename.endsWith('.ts')
  ? undefined
  : path.resolve(import.meta.dirname, '../program/presets.json')

/**
 * What a build keeps of presets, as text. Reading them is most of the work of starting a run, and their text is known
 * when the program is built.
 *
 * @param presets each with the text that it was read from
 */
export function compilePresets(presets: readonly (readonly [string, PresetSource])[]): string {
  const entries = presets.map(([text, preset]) => {
    const { file: _, ...rest } = preset
    return [digestOf(text), rest]
  })
  return `${JSON.stringify(Object.fromEntries(entries))}\n`
}

/** Reads what {@link compilePresets} wrote; empty for what is not there or no JSON: presets are then read from their text. */
export function readCompiled(file: string | undefined = FILE): CompiledPresets {
  if (file === undefined) return new Map()
  try {
    const kept = JSON.parse(readFileSync(file, 'utf8')) as Record<string, CompiledPreset>
    return new Map(Object.entries(kept))
  } catch {
    return new Map()
  }
}

/** The preset of a text, if exactly this text was compiled. */
export function findCompiled(
  compiled: CompiledPresets,
  text: string,
  file: string,
): PresetSource | undefined {
  const preset = compiled.get(digestOf(text))
  if (preset === undefined) return undefined
  return {
    ...preset,
    extends: preset.extends.map(({ name, at }) => ({ name, at: { ...at, file } })),
    file,
  }
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
