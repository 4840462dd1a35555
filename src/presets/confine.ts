import { realpathSync } from 'node:fs'
import path from 'node:path'
import { problemsError } from '../errors.ts'
import { type Catalog, isPresetPath } from './catalog.ts'

/**
 * A catalog for a file that brings its own presets: those that it names by path, and what they extend by path, stay
 * under the folder of that file, also behind symbolic links. Names are looked up as ever, and what they stand for is
 * the operator's: it extends what it likes.
 */
export function confineCatalog(catalog: Catalog, folder: string): Catalog {
  const root = realpathOf(folder)
  const refusal = (name: string, base: string): string | undefined => {
    const real = realpathOf(path.resolve(base, name))
    if (real === undefined) return `the preset ${JSON.stringify(name)} cannot be found`
    if (root !== undefined && isUnder(real, root)) return undefined
    return `the preset ${JSON.stringify(name)} lies outside the folder of the file that names it`
  }
  return {
    names: catalog.names,
    fileOf: (name) => catalog.fileOf(name),
    check: (name) => (isPresetPath(name) ? refusal(name, folder) : catalog.check(name)),
    get(name, at) {
      const file = at && realpathOf(at.file)
      const isOurs = file === undefined || root === undefined || isUnder(file, root)
      if (!isPresetPath(name) || !isOurs) return catalog.get(name, at)
      const message = refusal(name, at ? path.dirname(at.file) : folder)
      if (message === undefined) return catalog.get(name, at)
      throw problemsError([{ code: 'PRESET_UNKNOWN', message, ...(at && { at }) }])
    },
  }
}

function realpathOf(file: string): string | undefined {
  try {
    return realpathSync(file)
  } catch {
    return undefined
  }
}

function isUnder(file: string, folder: string): boolean {
  return file.startsWith(folder.endsWith('/') ? folder : `${folder}/`)
}
